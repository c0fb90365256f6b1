//! `restore`: creates a container from the files of `checkpoint`.

use container::RestoreOptions;

use super::stop::limit;
use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    restore(invocation).map_err(|failure| failure.of("restore"))
}

fn restore(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let values = invocation.values;
    if values.flag(&AUTO_DEDUP) {
        return Err(Failure::new("--auto-dedup is not supported yet"));
    }
    let images = checkpoint::images(values)?;
    create::with_rootfs(invocation, invocation.id()?, false, &|create| {
        let options = RestoreOptions {
            create,
            criu: checkpoint::criu(values, &images)?,
            detach: values.flag(&DETACH),
            no_subreaper: values.flag(&NO_SUBREAPER),
            lsm_profile: values.text(&LSM_PROFILE),
            lsm_mount_context: values.text(&LSM_MOUNT_CONTEXT),
            tcp_close: values.flag(&TCP_CLOSE),
            eager: values.flag(&EAGER),
            waits: false,
            timeout: values
                .text(&RESTORE_TIMEOUT)
                .map(|text| limit("timeout", text))
                .transpose()?,
        };
        Ok(container::restore(&invocation.store()?, &options)?)
    })
}
