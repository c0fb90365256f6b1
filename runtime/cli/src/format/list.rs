//! `list`: containers as a table, as JSON, or as ids only. `state`: one container as JSON.

use alloc::format;
use alloc::string::{String, ToString};

use container::{EXIT_CODE, State, Status};

use super::table;
use crate::failure::Failure;

/// Returns the containers as a table.
pub fn table(list: &[State]) -> String {
    let rows = list.iter().map(|state| {
        [
            state.id.clone(),
            state.pid.to_string(),
            status(state),
            state.bundle.clone(),
            state.created.clone(),
            state.owner.clone(),
        ]
    });
    table::layout(["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"], rows)
}

/// Returns the status, with the exit code in parentheses if the container ran in the background.
pub fn status(state: &State) -> String {
    match state.annotations.get(EXIT_CODE) {
        Some(code) if state.status == Status::Stopped => format!("{}({code})", state.status),
        _ => state.status.to_string(),
    }
}

/// Returns the containers as one line of JSON. Without containers it is `null`, as Go prints an empty list.
///
/// # Errors
/// As [`super::json`].
pub fn json(list: &[State]) -> Result<String, Failure> {
    super::json(&Some(list).filter(|list| !list.is_empty()))
}

/// Returns the ids, one per line.
pub fn quiet(list: &[State]) -> String {
    list.iter().flat_map(|state| [state.id.as_str(), "\n"]).collect()
}

/// Returns the output of `state` as in runc: indented by two blanks per level, without a trailing newline, and without
/// the owner.
pub fn state(state: State) -> Result<String, Failure> {
    super::indented_json(&State { owner: String::new(), ..state })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the state of a running container.
    pub(crate) fn example(id: &str) -> State {
        State {
            oci_version: "1.3.0".into(),
            id: id.into(),
            pid: 4242,
            status: Status::Running,
            bundle: "/srv/bundle".into(),
            rootfs: "/srv/bundle/rootfs".into(),
            created: "2026-11-21T07:34:19.123456789Z".into(),
            annotations: [("org.example".into(), "<1>".into())].into(),
            owner: "root".into(),
        }
    }

    #[test]
    fn table_as_runc_lays_it_out() {
        assert_eq!(
            table(&[]),
            "ID          PID         STATUS      BUNDLE      CREATED     OWNER\n"
        );
        let list = [example("c1"), example("a-container-with-a-name")];
        assert_eq!(
            table(&list),
            "\
ID                        PID         STATUS      BUNDLE        CREATED                          OWNER
c1                        4242        running     /srv/bundle   2026-11-21T07:34:19.123456789Z   root
a-container-with-a-name   4242        running     /srv/bundle   2026-11-21T07:34:19.123456789Z   root
"
        );
    }

    #[test]
    fn the_exit_code_of_a_stopped_container() {
        let mut state = example("c1");
        state.annotations.insert(EXIT_CODE.into(), "3".into());
        assert_eq!(status(&state), "running");
        state.status = Status::Stopped;
        assert_eq!(status(&state), "stopped(3)");
    }

    #[test]
    fn json_as_runc_prints_it() {
        assert_eq!(json(&[]).unwrap(), "null\n");
        assert_eq!(
            json(&[example("c1")]).unwrap(),
            concat!(
                r#"[{"ociVersion":"1.3.0","id":"c1","pid":4242,"status":"running","#,
                r#""bundle":"/srv/bundle","rootfs":"/srv/bundle/rootfs","#,
                r#""created":"2026-11-21T07:34:19.123456789Z","#,
                r#""annotations":{"org.example":"<1>"},"owner":"root"}]"#,
                "\n"
            )
        );
    }
}
