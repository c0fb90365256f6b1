//! The options of `run --image`, except the options for the root filesystem.

pub mod settings;

use ::spec::resources::{Pids, Resources};
use container::{ImageRun, Network};
use rustix::fs::{CWD, readlinkat, stat};

use super::*;

/// The default size of a log, in bytes.
const LOG: u64 = 8 << 20;
/// The permitted sizes of a log, in bytes; the minimum is one page.
const LOGS: core::ops::RangeInclusive<i64> = 4096..=1 << 40;
/// The smallest permitted memory limit, in bytes: roughly the memory that the start of a container needs.
const LEAST_MEMORY: i64 = 512 << 10;

/// Reads the options for running the image in `found`.
pub fn image<'a>(
    invocation: &Invocation<'a>,
    found: rootfs::image::Found,
    network: Network<'a>,
) -> Result<ImageRun<'a>, Failure> {
    let values = invocation.values;
    let is_kept = values.flag(&BACKGROUND);
    if values.is_set(&LOG_SIZE) && !is_kept {
        return Err(Failure::new("--log-size needs -d"));
    }
    if is_kept && values.flag(&TTY) {
        return Err(Failure::new(
            "-d and -t: nobody would be at the other end of the terminal; leave -t out, or --detach with \
             --console-socket",
        ));
    }
    let called = values.text(&IMAGE).unwrap_or_default();
    Ok(ImageRun {
        directory: found.directory,
        name: found.name.unwrap_or_else(|| called.to_string()),
        command: invocation.arguments,
        entrypoint: entrypoint(invocation)?,
        tty: values.flag(&TTY),
        env: environment(invocation)?,
        cwd: directory(invocation)?,
        user: values.text(&RUN_USER),
        read_only: values.flag(&READ_ONLY),
        hostname: host_name(values.text(&HOSTNAME))?,
        mounts: volumes::mounts(values)?,
        limits: limits(invocation)?,
        settings: settings::settings(values)?,
        network,
        reaper: if values.flag(&INIT) { Some(reaper(invocation)?) } else { None },
        log: if is_kept { Some(log_size(values.text(&LOG_SIZE))?) } else { None },
    })
}

/// Returns the variables given by `--env-file`, then those given by `--env`. A variable that is given only by its name
/// is copied from the caller's environment.
fn environment<'a>(invocation: &Invocation<'a>) -> Result<Vec<&'a str>, Failure> {
    let callers = |name: &str| {
        let mut all = invocation.args.environment().filter_map(|entry| entry.to_str().ok());
        all.find(|entry| entry.split_once('=').is_some_and(|(has, _)| has == name))
    };
    let mut entries = Vec::new();
    for path in invocation.values.texts(&ENV_FILE) {
        // The text is needed until the program is executed.
        let text: &str = sys::fs::read_text(path).context("read", path)?.leak();
        let lines = text.lines().map(str::trim_start);
        entries.extend(lines.filter(|line| !line.is_empty() && !line.starts_with('#')));
    }
    entries.extend(invocation.values.texts(&ENV));
    entries
        .into_iter()
        .filter_map(|entry| match entry.find('=') {
            Some(0) => Some(Err(failure!("--env {entry}: the name of the variable is missing"))),
            Some(_) => Some(Ok(entry)),
            None => callers(entry).map(Ok),
        })
        .collect()
}

fn directory<'a>(invocation: &Invocation<'a>) -> Result<Option<&'a str>, Failure> {
    let values = invocation.values;
    match values.text(&WORKDIR).or(values.text(&options::CWD)) {
        Some(path) if !path.starts_with('/') => {
            Err(failure!("--workdir {path}: must be an absolute path"))
        }
        path => Ok(path),
    }
}

fn entrypoint(invocation: &Invocation<'_>) -> Result<Option<Vec<String>>, Failure> {
    match invocation.values.texts(&ENTRYPOINT).last() {
        None => Ok(None),
        Some("") => Ok(Some(Vec::new())),
        Some(text) if text.starts_with('[') => serde_json::from_str(text)
            .map(Some)
            .map_err(|error| failure!("--entrypoint {text}: no list of words in JSON: {error}")),
        Some(text) => Ok(Some(Vec::from([text.to_string()]))),
    }
}

/// Checks the host name, which must be valid in /etc/hosts, too.
fn host_name(name: Option<&str>) -> Result<Option<&str>, Failure> {
    let is_fit = |name: &str| {
        name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
    };
    match name {
        Some(name) if !is_fit(name) => {
            Err(failure!("--hostname {name}: must have up to 64 letters, digits, '-', '.' and '_'"))
        }
        name => Ok(name),
    }
}

fn limits(invocation: &Invocation<'_>) -> Result<Resources, Failure> {
    let values = invocation.values;
    if let Some(text) = values.text(&RUN_MEMORY) {
        let bytes = size::parse(text).map_err(|error| failure!("--memory {text}: {error}"))?;
        if !matches!(bytes, -1 | LEAST_MEMORY..) {
            return Err(failure!(
                "--memory {text}: no container starts with less than {} KiB",
                LEAST_MEMORY >> 10
            ));
        }
    }
    let pids = match values.integer(&PIDS_LIMIT) {
        // 0 means "no limit", as for Podman and Docker.
        Some(0) => Some(-1),
        Some(number @ ..=-2) => {
            return Err(failure!("--pids-limit {number}: must be -1 (no limit) or more"));
        }
        number => number,
    };
    let mut limits = update::from_options(values)?;
    limits.pids = pids.map(|limit| Pids { limit: Some(limit) });
    Ok(limits)
}

fn log_size(text: Option<&str>) -> Result<u64, Failure> {
    let Some(text) = text else { return Ok(LOG) };
    let bytes = size::parse(text).map_err(|error| failure!("--log-size {text}: {error}"))?;
    match u64::try_from(bytes) {
        Ok(size) if LOGS.contains(&bytes) => Ok(size),
        _ => Err(failure!("--log-size {text}: must be 4k or more")),
    }
}

/// Returns the path of the dayfly binary, which also runs as the container's first process with `--init`.
fn reaper(invocation: &Invocation<'_>) -> Result<String, Failure> {
    const OWN: &str = "/proc/self/exe";
    if invocation.values.is_set(&PRESERVE_FDS) {
        return Err(Failure::new("--init passes on no descriptors: leave out --preserve-fds"));
    }
    if invocation.args.env("LISTEN_FDS").is_some() {
        return Err(Failure::new(
            "--init hands on no descriptors: LISTEN_FDS must not be set (socket activation)",
        ));
    }
    let path = readlinkat(CWD, OWN, Vec::new()).ok().and_then(|path| path.into_string().ok());
    let path = path.unwrap_or_default();
    let inode = |path: &str| stat(path).map(|stat| (stat.st_dev, stat.st_ino));
    match (inode(&path), inode(OWN)) {
        (Ok(named), Ok(own)) if named == own => Ok(path),
        _ => Err(Failure::new(format!(
            "--init: the file that dayfly runs from is not at {path:?}, and can't be given to the container"
        ))),
    }
}
