//! `restore`: creates a container from the files of `checkpoint`.

use container::{CreateOptions, RestoreOptions};

use super::layers::Places;
use super::stop::limit;
use super::{checkpoint, create};
use crate::definition::options::{
    AUTO_DEDUP, DETACH, LSM_MOUNT_CONTEXT, LSM_PROFILE, NO_SUBREAPER, RESTORE_TIMEOUT, TCP_CLOSE,
};
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    restore(invocation).map_err(|failure| failure.of("restore"))
}

fn restore(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let values = invocation.values;
    checkpoint::refuse(values, &[&AUTO_DEDUP])?;
    let images = checkpoint::images(values)?;
    let places = Places::of(invocation)?;
    let layered = places.as_ref().map(|places| places.layered(invocation)).transpose()?;
    let create = create::options(invocation, invocation.id()?)?;
    let options = RestoreOptions {
        create: CreateOptions { layered: layered.as_ref(), ..create },
        criu: checkpoint::criu(values, &images)?,
        detach: values.flag(&DETACH),
        no_subreaper: values.flag(&NO_SUBREAPER),
        lsm_profile: values.text(&LSM_PROFILE),
        lsm_mount_context: values.text(&LSM_MOUNT_CONTEXT),
        tcp_close: values.flag(&TCP_CLOSE),
        timeout: values.text(&RESTORE_TIMEOUT).map(|text| limit("timeout", text)).transpose()?,
    };
    Ok(container::restore(&invocation.store()?, &options)?)
}
