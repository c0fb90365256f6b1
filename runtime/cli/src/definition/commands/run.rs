//! The commands `run` and `logs`.

use crate::commands::*;
use crate::definition::Action::{Run, Status};
use crate::definition::options::*;
use crate::definition::{Command, Order};

/// The command `run`.
pub(super) const RUN: Command =
    Command::new("run", Status(run::command), "create a container, run it and delete it")
        .guessed()
        .description(
            "\
Waits for the program to end, returns its exit status (128 plus the number of a
signal that killed it), and deletes the container. Signals are forwarded to the
program.

With --image, no bundle is needed: configuration and layers are those of an
image of the store (\"dayfly image\"), and the arguments are the command to run,
\"run --image REF [COMMAND [ARG...]]\". REF is a name, the last part of a name if
it is unambiguous, or a prefix of a digest. \"run REF [COMMAND [ARG...]]\" is the
same, unless the working directory is a bundle and no option is for images. The
container is removed when its program ends; with -d, it exists, stopped, until
\"dayfly delete\". If the kernel supports it, layers are assembled without an
entry in the host's mount table. With --userns auto, all files belong to a range
of ids that no other container uses. The range is part of those that /etc/subuid
and /etc/subgid grant to the user dayfly or containers. For users other than
root, the container has a user namespace with the ids that these files grant to
the user.

With --template, a template (\"dayfly template\") forks the program instead of
executing it, \"run --template NAME [ARG...]\". The arguments follow those of the
template's program. The bundle is the template's; with --bundle, the container's
id precedes the arguments.",
        )
        .options(&[
            &[&IMAGE, &BACKGROUND, &REMOVE],
            EVERYDAY,
            LIMITS,
            RIGHTS,
            OF_LAYERS,
            &[&ROOTFS_STATS],
            &[&BUNDLE, &CONFIG, &RUN_DETACH, &KEEP, &PID_FILE, &CONSOLE_SOCKET, &PIDFD_SOCKET],
            &[&NO_SUBREAPER],
            OF_STARTS,
            &[&TRACE],
        ])
        .headings(&[
            "OPTIONS",
            "",
            "LIMITS OF AN IMAGE'S CONTAINER",
            "RIGHTS AND NAMESPACES OF AN IMAGE'S CONTAINER",
            "ROOT FILESYSTEM",
            "",
            "BUNDLES, AS IN RUNC",
            "",
            "THE START ITSELF",
            "",
        ])
        .order(Order::MixedUnless(&[(&IMAGE, "[COMMAND] [ARG...]"), (&TEMPLATE, "[ARG...]")]))
        .examples(&[
            ("run -it debian bash", "run a shell in an image of the store"),
            (
                "run -d --name web -v /srv/www:/www:ro -m 256m --image web",
                "run an image with a directory of the host and a limit, and keep its output",
            ),
            ("run -b /srv/web web", "run the bundle /srv/web"),
            (
                "run --template resize photo.jpg",
                "run a program that the template resize has warmed up",
            ),
            (
                "run --trace - -b /srv/web web",
                "run the bundle, and print the time of each step of the start",
            ),
        ]);

/// The command `logs`.
pub(super) const LOGS: Command =
    Command::new("logs", Run(logs::command), "print the output of a container in the background")
        .guessed()
        .description(
            "\
Prints the standard output and standard error of a container that \"dayfly run -d
--image\" has started. The output is kept until the container is deleted.",
        )
        .options(&[&[&FOLLOW, &TAIL]])
        .examples(&[("logs -f --tail 10 web", "print the last ten lines, and new output")]);
