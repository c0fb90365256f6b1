//! The commands `checkpoint` and `restore`.

use crate::commands::*;
use crate::definition::Action::{Run, Status};
use crate::definition::Command;
use crate::definition::options::*;

/// The command `checkpoint`.
pub(super) const CHECKPOINT: Command =
    Command::new("checkpoint", Run(checkpoint::command), "save a running container")
        .description(
            "\
Saves the processes of a running container and their memory to files, by criu
(criu.org). The program criu, 3.0 or newer, must be in $PATH or named by
$DAYFLY_CRIU. Afterwards the container no longer exists, unless --leave-running
is given. Files of the root filesystem and of volumes are not saved, and must
still exist when the container is restored. If criu fails, the container
continues, and the error names the log.",
        )
        .options(&[
            &[&IMAGE_PATH, &WORK_PATH, &CONFIG, &LEAVE_RUNNING, &SHELL_JOB, &FILE_LOCKS],
            &[&EXT_UNIX_SK, &TCP_ESTABLISHED, &TCP_SKIP_IN_FLIGHT, &LINK_REMAP],
            &[&MANAGE_CGROUPS_MODE, &EMPTY_NS, &PRE_DUMP, &PARENT_PATH, &AUTO_DEDUP, &LAZY_PAGES],
            &[&PAGE_SERVER, &STATUS_FD, &CHECKPOINT_FOR, &RECORD],
        ])
        .examples(&[("checkpoint --image-path /srv/saved web", "save and end the container web")]);

/// The command `restore`.
pub(super) const RESTORE: Command =
    Command::new("restore", Status(restore::command), "restore a saved container")
        .description(
            "\
Creates a container from the bundle, and restores in it the processes that
\"dayfly checkpoint\" saved. Waits for the program to end, as \"dayfly run\" does,
unless --detach is given. Limits and mounts are those of the bundle's
config.json. All hooks run except createContainer and startContainer hooks.
The images must belong to the caller, in a directory that nobody else can write
to: they determine which processes are created, and with which privileges.",
        )
        .options(&[
            &[&BUNDLE, &CONFIG, &IMAGE_PATH, &WORK_PATH, &CONSOLE_SOCKET, &DETACH, &PID_FILE],
            &[&NO_SUBREAPER, &NO_PIVOT, &LAYERS, &STORE, &USERNS, &ROOTFS_MODE, &EPHEMERAL],
            &[&EPHEMERAL_SIZE, &SHELL_JOB, &FILE_LOCKS, &EXT_UNIX_SK, &TCP_ESTABLISHED, &TCP_CLOSE],
            &[
                &EAGER,
                &RESTORE_TIMEOUT,
                &MANAGE_CGROUPS_MODE,
                &EMPTY_NS,
                &LSM_PROFILE,
                &LSM_MOUNT_CONTEXT,
            ],
            &[&AUTO_DEDUP, &LAZY_PAGES],
        ])
        .examples(&[(
            "restore -d -b /srv/web --image-path /srv/saved web",
            "continue the saved container",
        )]);
