//! `run`: creates a container, runs it and deletes it.

use alloc::format;

use container::{CreateOptions, Error, RunOptions, TemplateUse};

use super::layers::{Mounts, Places, new_id};
use super::{create, print};
use crate::NAME;
use crate::definition::options::images::{BACKGROUND, CONTAINER_NAME, IMAGE, REMOVE, RUN_DETACH};
use crate::definition::options::{BUNDLE, CONFIG, KEEP, LAYERS, NO_SUBREAPER, TEMPLATE};
use crate::failure::Failure;
use crate::invocation::Invocation;

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
    let places = Places::of(invocation)?;
    let layered = places.as_ref().map(|places| places.layered(invocation)).transpose()?;
    let image = layered.as_ref().and_then(|layered| layered.image.as_ref());
    let template = values.text(&TEMPLATE).filter(|_| image.is_none());
    // With a bundle, the first argument is the id, as ever.
    let is_of_template = template.is_some() && !values.is_set(&BUNDLE);
    let generated;
    let (id, bundle) = match (image, values.text(&CONTAINER_NAME)) {
        (Some(image), Some(name)) => (name, Some(image.directory.as_str())),
        (Some(image), None) => {
            generated = new_id()?;
            (generated.as_str(), Some(image.directory.as_str()))
        }
        (None, name) if is_of_template => match name {
            Some(name) => (name, None),
            None => {
                generated = new_id()?;
                (generated.as_str(), None)
            }
        },
        (None, _) => (invocation.id()?, None),
    };
    if image.is_some() || is_of_template {
        *invocation.named.borrow_mut() = id.into();
    }
    let is_background = values.flag(&BACKGROUND);
    if is_background && values.flag(&REMOVE) {
        (invocation.tell)(&format!(
            "--rm with -d: no process can remove the container when it ends: use \"{NAME} delete {id}\""
        ));
    }
    let create = create::options(invocation, id)?;
    invocation.trace.seal(invocation.args, create.fast_paths)?;
    let store = invocation.store()?;
    let of_template = match template {
        Some(name) if is_of_template => Some(store.bundle_of_template(name)?),
        _ => None,
    };
    let words = usize::from(!is_of_template);
    let bundle = bundle.or(of_template.as_deref()).unwrap_or(create.bundle);
    let mounts = Mounts::read(invocation)?;
    let options = RunOptions {
        create: CreateOptions {
            bundle,
            layered: layered.as_ref(),
            rootfs: &mounts.list()?,
            rootfs_mode: mounts.mode(),
            template: template
                .map(|name| TemplateUse::From {
                    name,
                    args: invocation.arguments.get(words..).unwrap_or_default(),
                })
                .or(create.template),
            ..create
        },
        detach: values.flag(&RUN_DETACH) || is_background,
        keep: values.flag(&KEEP),
        no_subreaper: values.flag(&NO_SUBREAPER),
    };
    let status = container::run(&store, &options).map_err(|error| match &error {
        Error::NoConfiguration(_)
            if image.is_none() && !values.is_set(&BUNDLE) && !values.is_set(&CONFIG) =>
        {
            Failure::new(format_args!("{error}; did you mean {NAME} run --image {id}?"))
        }
        // As runc, whose init exits with this status. A detached container has no such status.
        Error::Launch(cause) if cause.is_of_exec() && !options.detach => {
            Failure::from(error).with_status(NOT_EXECUTED)
        }
        Error::System(cause) if cause.object == "/dev/tty" => {
            Failure::new(format_args!("{error}: {}", no_terminal(image.is_some())))
        }
        _ => error.into(),
    })?;
    if is_background && image.is_some() {
        print(&format!("{id}\n"))?;
    }
    Ok(status)
}

/// Returns the advice for the error that the container needs a terminal and this command has none.
fn no_terminal(is_image: bool) -> &'static str {
    match is_image {
        true => "this command has no terminal; leave -t out",
        false => "this command has no terminal; set process.terminal to false in config.json",
    }
}
