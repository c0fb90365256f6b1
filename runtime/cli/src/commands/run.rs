//! `run`: creates a container, runs it and deletes it.

use container::{CreateOptions, RunOptions};

use super::create;
use super::layers::{Mounts, Places, new_id};
use crate::definition::NAME;
use crate::definition::options::{CONTAINER_NAME, DETACH, KEEP, NO_SUBREAPER};
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    run(invocation).map_err(|failure| failure.of(format_args!("{NAME} run")))
}

fn run(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let values = invocation.values;
    let places = Places::of(invocation)?;
    let layered = places.as_ref().map(|places| places.layered(invocation)).transpose()?;
    let image = layered.as_ref().and_then(|layered| layered.image.as_ref());
    let generated;
    let (id, bundle) = match (image, values.text(&CONTAINER_NAME)) {
        (Some(image), Some(name)) => (name, Some(image.directory.as_str())),
        (Some(image), None) => {
            generated = new_id()?;
            (generated.as_str(), Some(image.directory.as_str()))
        }
        (None, _) => (invocation.id()?, None),
    };
    let create = create::options(invocation, id)?;
    let bundle = bundle.unwrap_or(create.bundle);
    let mounts = Mounts::read(invocation)?;
    let options = RunOptions {
        create: CreateOptions {
            bundle,
            layered: layered.as_ref(),
            rootfs: &mounts.list()?,
            rootfs_mode: mounts.mode(),
            ..create
        },
        detach: invocation.values.flag(&DETACH),
        keep: invocation.values.flag(&KEEP),
        no_subreaper: invocation.values.flag(&NO_SUBREAPER),
    };
    invocation.trace.seal(invocation.args, options.create.fast_paths)?;
    Ok(container::run(&invocation.store()?, &options)?)
}
