//! `template`: keeps warmed-up programs that fork the programs of containers.

use core::time::Duration;

use container::{CreateOptions, Rest, RunOptions, TemplateUse};

use super::*;
use crate::format::{json, table};

/// The default of `--ready-within`.
const READY: Duration = Duration::from_secs(60);

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    match *invocation.arguments {
        ["create", name] => make(invocation, name)
            .map_err(|failure| failure.of(format_args!("{NAME} template create"))),
        ["ls"] => list(invocation),
        ["rm", name] => remove(invocation, name),
        ["create" | "rm"] => Err(Failure::new("template: no name is given")),
        ["ls", ..] => Err(Failure::new("template: ls has no arguments")),
        [other, ..] => {
            Err(failure!("template: unknown action {other:?}; actions are create, ls and rm"))
        }
        [] => Err(Failure::new("template: no action is given: use create, ls or rm")),
    }
}

fn make(invocation: &Invocation<'_>, name: &str) -> Result<(), Failure> {
    let store = invocation.store()?;
    let options = RunOptions {
        create: CreateOptions {
            template: Some(TemplateUse::Become { allowed: invocation.values.text(&FOR) }),
            ..create::options(invocation, name)?
        },
        detach: true,
        keep: true,
        no_subreaper: true,
    };
    invocation.trace.seal(invocation.args, options.create.fast_paths)?;
    let time = invocation
        .values
        .duration(&READY_WITHIN)
        .map_or(READY, |nanoseconds| Duration::from_nanos(nanoseconds.max(0).unsigned_abs()));
    match (invocation.values.text(&SAVE), invocation.values.text(&FROM)) {
        (None, None) => container::run(&store, &options).map(drop)?,
        (Some(_), Some(_)) => return Err(Failure::new("--save and --from exclude each other")),
        (Some(images), None) => {
            store.save_template(&options, images, time)?;
            store.restore_template(options.create.clone(), images, time)?;
        }
        (None, Some(images)) => store.restore_template(options.create.clone(), images, time)?,
    }
    store.await_template(name, time, options.create.warn)?;
    Ok(())
}

fn list(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let templates = invocation.store()?.templates()?;
    if is_json(invocation.values.text(&LS_FORMAT), "table")? {
        return print(&json(&templates)?);
    }
    let rows = templates.iter().map(|template| {
        [
            template.name.clone(),
            template.pid.to_string(),
            String::from(if template.serves { "ready" } else { "ended" }),
            template.containers.to_string(),
            template.bundle.clone(),
        ]
    });
    print(&table::layout(["NAME", "PID", "STATUS", "CONTAINERS", "BUNDLE"], rows))
}

fn remove(invocation: &Invocation<'_>, name: &str) -> Result<(), Failure> {
    let force = invocation.values.flag(&KILL_CHILDREN);
    let rest = invocation.store()?.remove_template(name, force, invocation.warn)?;
    let what = match rest {
        Rest::Removed => return Ok(()),
        Rest::Containers(0) => "the parents of its containers have not reaped them".to_string(),
        Rest::Containers(1) => "one of its containers goes on".to_string(),
        Rest::Containers(count) => format!("{count} of its containers go on"),
    };
    (invocation.warn.print)(&format!(
        "template {name} has ended, but {what}: use \"dayfly template rm {name}\" again \
         afterwards"
    ));
    Ok(())
}
