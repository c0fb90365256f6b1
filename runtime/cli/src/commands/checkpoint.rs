//! `checkpoint`: saves the processes of a running container to files.

use alloc::borrow::Cow;

use container::{CheckpointOptions, CriuOptions, Pages, Tracking, cgroups_mode, default_images};

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    checkpoint(invocation).map_err(|failure| failure.of("checkpoint"))
}

fn checkpoint(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let values = invocation.values;
    let images = images(values)?;
    let allowed: Vec<&str> = values.texts(&CHECKPOINT_FOR).collect();
    if let Some(other) = allowed.iter().find(|text| !text.contains('=')) {
        return Err(failure!("--for {other:?}: KEY=VALUE is needed"));
    }
    let options = CheckpointOptions {
        allowed,
        record: values.flag(&RECORD),
        criu: criu(values, &images)?,
        config: values.text(&CONFIG),
        leave_running: values.flag(&LEAVE_RUNNING),
        tcp_skip_in_flight: values.flag(&TCP_SKIP_IN_FLIGHT),
        link_remap: values.flag(&LINK_REMAP),
        tracking: Tracking {
            pre_dump: values.flag(&PRE_DUMP),
            parent: values.text(&PARENT_PATH),
            auto_dedup: values.flag(&AUTO_DEDUP),
        },
        env: invocation.args,
        warn: invocation.warn,
    };
    Ok(invocation.container()?.checkpoint(&options)?)
}

/// Returns the directory for criu's images: the option's value, or the default in the working directory.
pub fn images<'a>(values: &Values<'a>) -> Result<Cow<'a, str>, Failure> {
    match values.text(&IMAGE_PATH) {
        Some(path) => Ok(Cow::Borrowed(path)),
        None => Ok(Cow::Owned(default_images()?)),
    }
}

/// Reads the options that `checkpoint` and `restore` share.
pub fn criu<'a>(values: &Values<'a>, images: &'a str) -> Result<CriuOptions<'a>, Failure> {
    if let Some(other) = values.texts(&EMPTY_NS).find(|name| *name != "network") {
        return Err(failure!("namespace {other:?} is not supported"));
    }
    Ok(CriuOptions {
        images,
        work: values.text(&WORK_PATH),
        shell_job: values.flag(&SHELL_JOB),
        file_locks: values.flag(&FILE_LOCKS),
        ext_unix_sk: values.flag(&EXT_UNIX_SK),
        tcp_established: values.flag(&TCP_ESTABLISHED),
        cgroups_mode: cgroups_mode(values.text(&MANAGE_CGROUPS_MODE))?,
        pages: Pages {
            lazy: values.flag(&LAZY_PAGES),
            server: values.text(&PAGE_SERVER).map(Pages::parse_server).transpose()?,
            status_fd: status_fd(values),
        },
    })
}

/// Returns the descriptor of `--status-fd`. As with runc, -1 means that there is none. A number that is out of range
/// becomes `i32::MAX`, which is no open descriptor.
fn status_fd(values: &Values<'_>) -> Option<i32> {
    let number = values.integer(&STATUS_FD).filter(|number| *number != -1)?;
    Some(i32::try_from(number).unwrap_or(i32::MAX))
}
