//! The containers of a state directory, and their groups.

use super::group::Group;
use report::{Error, program};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A container as `dayfly list --format json` prints it; the pid is 0 if it has no process.
#[derive(Debug, Deserialize)]
struct Listed {
    id: String,
    pid: i32,
}

/// Returns the ids of the containers of the state directory `root`, sorted, each with the group of the container's first
/// process, or the ancestor group that is named by the container's id. The default is the state directory of dayfly's
/// commands. Containers that share the group of this process are omitted, because other processes also use the group's
/// resources.
///
/// # Errors
/// The program dayfly does not exist or fails.
pub fn containers(root: Option<&Path>) -> Result<Vec<(String, Group)>, Error> {
    let failed = |cause| Error::system("execute", "dayfly list", cause);
    let dayfly = program::dayfly().ok_or_else(|| {
        refused!("no dayfly beside this program or in $PATH, to list the containers")
    })?;
    let mut command = Command::new(dayfly);
    command.args(root.map(|root| [Path::new("--root"), root]).into_iter().flatten());
    command.args(["list", "--format", "json"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(failed)?;
    if !output.status.success() {
        bail!("dayfly list: {}", output.status);
    }
    // Without containers the document is null.
    let listed: Option<Vec<Listed>> =
        serde_json::from_slice(&output.stdout).map_err(|error| refused!("dayfly list: {error}"))?;
    let own = groups_of("self").unwrap_or_default();
    let found = listed.into_iter().flatten().filter(|listed| listed.pid > 0);
    let found = found.filter_map(|Listed { id, pid }| {
        // A process that has ended meanwhile has no file.
        let path = path_of(&id, &groups_of(&pid.to_string())?, &own)?;
        Some((id, Group::at(&path).ok()?))
    });
    Ok(found.collect())
}

fn groups_of(process: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{process}/cgroup")).ok()
}

/// Returns the path of a container's group, from the lines of its first process's /proc/PID/cgroup. The program may
/// have created groups below the container's group and moved into one of them, as systemd does. So a path is cut off
/// after the first component that names the container's id. If no component of any path names the id, returns the first
/// path that is not `/` and differs from this process's path in the same hierarchy.
fn path_of(id: &str, lines: &str, own: &str) -> Option<String> {
    let paths = || lines.lines().filter_map(|line| Some((line, line.splitn(3, ':').nth(2)?)));
    let named = |path: &str| {
        let mut length = 0;
        path.split('/').find_map(|part| {
            length += part.len() + 1;
            names(part, id).then(|| path[..length - 1].to_owned())
        })
    };
    paths().find_map(|(_, path)| named(path)).or_else(|| {
        let mut others =
            paths().filter(|(line, path)| *path != "/" && !own.lines().any(|it| it == *line));
        others.next().map(|(_, path)| path.to_owned())
    })
}

/// Returns whether a part of a path is `ID`, `libpod-ID`, `docker-ID.scope` or the like.
fn names(part: &str, id: &str) -> bool {
    let stem = part.strip_suffix(".scope").unwrap_or(part);
    stem.strip_suffix(id)
        .is_some_and(|before| before.is_empty() || before.ends_with(['-', '_', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "5:memory:/shell\n0::/shell\n";

    #[test]
    fn groups_of_containers() {
        for (lines, expected) in [
            ("0::/c0ffee\n", "/c0ffee"),
            ("9:name=systemd:/\n5:memory:/pods/c0ffee\n0::/shell\n", "/pods/c0ffee"),
            (
                "0::/machine.slice/libpod-c0ffee.scope/init.scope\n",
                "/machine.slice/libpod-c0ffee.scope",
            ),
            ("0::/kubepods/cri-containerd:c0ffee/a:b\n", "/kubepods/cri-containerd:c0ffee"),
            // Groups with other names.
            ("5:memory:/shell\n0::/pools/7\n", "/pools/7"),
            ("5:memory:/xc0ffee\n", "/xc0ffee"),
            ("5:memory:/shell\n0::/shell\n", ""),
            ("0::/\n", ""),
        ] {
            assert_eq!(path_of("c0ffee", lines, OWN).unwrap_or_default(), expected, "{lines}");
        }
    }
}
