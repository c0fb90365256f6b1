//! `inspect --format`: the part of Go's templates that Docker's and Podman's users type, `{{.State.Status}}` and
//! `{{json .Mounts}}` in a text.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use crate::failure::{Failure, failure};

/// Returns the template with values of a container, which `inspect` prints as JSON.
///
/// # Errors
/// If the template has anything else than names of values in braces.
pub fn fill(template: &str, container: &Value) -> Result<String, Failure> {
    let container = with_names_of_docker(container);
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once("{{") {
        let (action, after) = after
            .split_once("}}")
            .ok_or_else(|| failure!("--format {template}: }}}} is missing"))?;
        text.push_str(before);
        text.push_str(&value(action, &container)?);
        rest = after;
    }
    Ok(text + rest + "\n")
}

/// Adds the groups into which Docker and Podman sort the values.
fn with_names_of_docker(container: &Value) -> Value {
    let (mut all, process) = (container.clone(), &container["process"]);
    let is = |status: &str| container["status"] == status;
    all["Name"] = container["id"].clone();
    all["State"] = json!({
        "Status": container["status"],
        "Running": is("running") || is("paused"),
        "Paused": is("paused"),
        "Pid": container["pid"],
        "ExitCode": container["exitCode"],
        "StartedAt": container["started"],
        "FinishedAt": container["finished"],
    });
    all["Config"] = json!({
        "Image": container["image"],
        "Cmd": process["args"],
        "Env": process["env"],
        "WorkingDir": process["cwd"],
    });
    all
}

/// Returns the value for the text between braces.
fn value(action: &str, container: &Value) -> Result<String, Failure> {
    let words: Vec<&str> = action.split_whitespace().collect();
    let (path, is_json) = match words[..] {
        ["json", path] => (path, true),
        [path] => (path, false),
        _ => ("", false),
    };
    let names = path.strip_prefix('.').ok_or_else(|| {
        failure!("--format: {{{{{action}}}}}: only {{{{.NAME}}}} and {{{{json .NAME}}}} are understood; jq selects from the JSON without --format")
    })?;
    let mut found = container;
    for name in names.split('.').filter(|name| !name.is_empty()) {
        let members = found.as_object().into_iter().flatten();
        let member = members.clone().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found = member.map(|(_, value)| value).ok_or_else(|| {
            let known: Vec<&str> = members.map(|(known, _)| known.as_str()).collect();
            failure!("--format: {path}: there is no {name}, but {}", known.join(", "))
        })?;
    }
    Ok(match found {
        Value::String(text) if !is_json => text.clone(),
        Value::Null if !is_json => "<no value>".to_owned(),
        value => value.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_type() {
        let container = json!({
            "id": "web", "status": "running", "pid": 7, "image": "alpine",
            "process": { "args": ["sh"], "env": ["A=1"] },
            "annotations": { "a": "<1>" },
        });
        for (template, text) in [
            ("{{.State.Status}}", "running"),
            ("{{ .State.Pid }} {{.Name}}", "7 web"),
            ("{{.State.Running}},{{.State.ExitCode}}", "true,<no value>"),
            ("{{json .Config.Cmd}} of {{.Config.Image}}", "[\"sh\"] of alpine"),
            ("{{.Id}} {{json .id}} {{.annotations}}", "web \"web\" {\"a\":\"<1>\"}"),
            ("plain", "plain"),
        ] {
            assert_eq!(fill(template, &container).unwrap(), alloc::format!("{text}\n"));
        }
        for (template, text) in [
            (
                "{{range .Mounts}}{{.}}{{end}}",
                "{{range .Mounts}}: only {{.NAME}} and {{json .NAME}}",
            ),
            (
                "{{.State.Statsu}}",
                ".State.Statsu: there is no Statsu, but ExitCode, FinishedAt, Paused",
            ),
            ("{{.Id", "--format {{.Id: }} is missing"),
            ("{{}}", "{{}}: only"),
        ] {
            let error = fill(template, &container).unwrap_err().message;
            assert!(error.contains(text), "{error}");
        }
    }
}
