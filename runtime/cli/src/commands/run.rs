//! `run`: creates a container, runs it and deletes it.

use container::{CreateOptions, Error, RunOptions, TemplateUse};

use rustix::fs::{Mode, OFlags, open, unlink};
use rustix::io::write;

use super::layers::new_id;
use super::*;

/// The exit status of a command whose program cannot be executed.
const NOT_EXECUTED: i32 = 255;

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    run(invocation).map_err(|failure| failure.of(format_args!("{NAME} run")))
}

fn run(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let values = invocation.values;
    if values.is_set(&IMAGE) || values.is_set(&LAYERS) {
        container::enter_user_namespace(invocation.args, invocation.trace)?;
    }
    create::with_rootfs(invocation, "", true, &|create| start(invocation, create))
}

fn start(invocation: &Invocation<'_>, create: CreateOptions<'_>) -> Result<i32, Failure> {
    let values = invocation.values;
    let image = create.layered.and_then(|layered| layered.image.as_ref());
    let template = values.text(&TEMPLATE).filter(|_| image.is_none());
    // With a bundle, the first argument is the id, as ever.
    let is_of_template = template.is_some() && !values.is_set(&BUNDLE);
    let has_name = image.is_some() || is_of_template;
    let generated;
    let id = match values.text(&CONTAINER_NAME) {
        _ if !has_name => invocation.id()?,
        Some(name) => name,
        None => {
            generated = new_id()?;
            generated.as_str()
        }
    };
    if has_name {
        *invocation.named.borrow_mut() = id.into();
    }
    let is_background = values.flag(&BACKGROUND);
    if is_background && values.flag(&REMOVE) {
        (invocation.warn.print)(&format!(
            "--rm with -d: no process can remove the container when it ends: use \"{NAME} delete {id}\""
        ));
    }
    let store = invocation.store()?;
    let of_template = match template {
        Some(name) if is_of_template => Some(store.bundle_of_template(name)?),
        _ => None,
    };
    let bundle = image.map(|image| image.directory.as_str()).or(of_template.as_deref());
    let args = invocation.arguments.get(usize::from(!is_of_template)..).unwrap_or_default();
    let options = RunOptions {
        create: CreateOptions {
            id,
            bundle: bundle.unwrap_or(create.bundle),
            template: template.map(|name| TemplateUse::From { name, args }).or(create.template),
            ..create
        },
        detach: values.flag(&RUN_DETACH) || is_background,
        keep: values.flag(&KEEP),
        no_subreaper: values.flag(&NO_SUBREAPER),
    };
    if let Some(path) = values.text(&CIDFILE) {
        write_id(path, id)?;
    }
    let status = container::run(&store, &options).inspect_err(|_| {
        if let Some(path) = values.text(&CIDFILE) {
            // There is no such container.
            let _ = unlink(path);
        }
    });
    let status = status.map_err(|error| match &error {
        Error::NoConfiguration(_)
            if image.is_none() && !values.is_set(&BUNDLE) && !values.is_set(&CONFIG) =>
        {
            failure!("{error}; did you mean {NAME} run --image {id}?")
        }
        // As runc, whose init exits with this status. A detached container has no such status.
        Error::Launch(cause) if cause.is_of_exec() && !options.detach => {
            Failure::from(error).with_status(NOT_EXECUTED)
        }
        Error::System(cause) if cause.object == "/dev/tty" => {
            failure!("{error}: {}", no_terminal(image.is_some()))
        }
        _ => error.into(),
    })?;
    if is_background && image.is_some() {
        print(&format!("{id}\n"))?;
    }
    Ok(status)
}

/// Writes the container's id to a new file.
fn write_id(path: &str, id: &str) -> Result<(), Failure> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o644)).context("create", path)?;
    write(&file, id.as_bytes()).map(drop).context("write", path).map_err(Failure::from)
}

/// Returns the advice for the error that the container needs a terminal and this command has none.
fn no_terminal(is_image: bool) -> &'static str {
    match is_image {
        true => "this command has no terminal; leave -t out",
        false => "this command has no terminal; set process.terminal to false in config.json",
    }
}
