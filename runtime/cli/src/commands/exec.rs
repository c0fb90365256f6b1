//! `exec`: runs another process in a container.

use container::{Error, ExecOptions, ProcessDocument};

use super::*;

/// The exit status if the process could not be run. Lower exit statuses come from the process itself.
const FAILED: i32 = 255;

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    exec(invocation).map_err(|failure| failure.of("exec").with_status(FAILED))
}

fn exec(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let options = options(invocation)?;
    invocation.trace.seal(invocation.args, options.fast_paths)?;
    let container = invocation.container()?;
    if options.process.is_none() && options.args.is_empty() {
        return Err(Failure::new("exec args cannot be empty"));
    }
    container.join_its_makers()?;
    container.exec(&options).map_err(|error| match &error {
        Error::System(cause) if cause.object == "/dev/tty" && options.tty == Some(true) => {
            failure!("{error}: this command has no terminal; leave -t out")
        }
        _ => error.into(),
    })
}

fn options<'a>(invocation: &Invocation<'a>) -> Result<ExecOptions<'a>, Failure> {
    let values = invocation.values;
    let additional_gids = values.integers(&ADDITIONAL_GIDS).map(gid).collect::<Result<_, _>>()?;
    Ok(ExecOptions {
        process: values.text(&PROCESS).map(ProcessDocument::File),
        args: invocation.arguments.iter().skip(1).copied().collect(),
        cwd: values.text(&WORKDIR).or_else(|| values.text(&CWD)),
        env: values.texts(&ENV).collect(),
        // The new process gets a terminal only on request, even if the container's first process has one.
        tty: Some(values.flag(&TTY)),
        user: values.text(&USER),
        additional_gids,
        caps: values.texts(&CAP).collect(),
        no_new_privs: values.boolean(&NO_NEW_PRIVS),
        apparmor: values.text(&APPARMOR),
        process_label: values.text(&PROCESS_LABEL),
        detach: values.flag(&DETACH),
        pid_file: values.text(&PID_FILE),
        console_socket: values.text(&CONSOLE_SOCKET),
        console: None,
        pidfd_socket: values.text(&PIDFD_SOCKET),
        preserve_fds: invocation.count(&PRESERVE_FDS)?,
        cgroup: values.texts(&CGROUP).collect::<Vec<_>>(),
        ignore_paused: values.flag(&IGNORE_PAUSED),
        fast_paths: invocation.fast_paths()?,
        warn: invocation.warn,
    })
}

fn gid(number: i64) -> Result<u32, Failure> {
    number.try_into().map_err(|_| failure!("additional-gids must be a positive number {number}"))
}
