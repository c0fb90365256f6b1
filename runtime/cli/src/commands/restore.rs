//! `restore`: creates a container from the files of `checkpoint`.

use container::RestoreOptions;

use super::{checkpoint, create};
use crate::definition::options::{
    AUTO_DEDUP, DETACH, LAZY_PAGES, LSM_MOUNT_CONTEXT, LSM_PROFILE, NO_SUBREAPER,
};
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    restore(invocation).map_err(|failure| failure.of("restore"))
}

fn restore(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let values = invocation.values;
    checkpoint::refuse(values, &[&AUTO_DEDUP, &LAZY_PAGES])?;
    let images = checkpoint::images(values)?;
    let options = RestoreOptions {
        create: create::options(invocation, invocation.id()?)?,
        criu: checkpoint::criu(values, &images)?,
        detach: values.flag(&DETACH),
        no_subreaper: values.flag(&NO_SUBREAPER),
        lsm_profile: values.text(&LSM_PROFILE),
        lsm_mount_context: values.text(&LSM_MOUNT_CONTEXT),
    };
    Ok(container::restore(&invocation.store()?, &options)?)
}
