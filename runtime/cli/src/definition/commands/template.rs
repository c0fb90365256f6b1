//! The command `template`.

use crate::commands::*;
use crate::definition::Action::Run;
use crate::definition::Command;
use crate::definition::options::*;

/// The command `template`.
pub(super) const COMMAND: Command = Command::new(
    "template",
    Run(template::command),
    "keep a warmed-up program that forks containers",
)
.description(
    "\
A template is a container whose program has loaded what it needs, and forks the
programs of other containers. Such a program is at work in the time of a fork,
not of its own warm-up. It waits for requests by a small library, such as
dayfly_template.py for Python and dayfly_template.rb for Ruby; an ordinary start
of the program is not affected.

\"template create NAME\" makes a template from a bundle, whose config.json needs
new user, PID and mount namespaces, and returns when it waits for requests. \"run
--template NAME\" and \"create --template NAME\" use it, and so do engines for
containers with the annotation run.dayfly.template, if --for allows it. The
container has namespaces, cgroup, root filesystem, user, capabilities and
seccomp filter of its own, as ever. Ids must be mapped as the template's are. If
the template is gone or does not suit the container, the program is executed,
with a warning.

With --save, the template is saved to a directory, by criu, and \"template create
--from DIR NAME\" makes it in the time of a restore, also after a reboot.

\"template ls\" lists templates. \"template rm NAME\" ends a template; containers
that it has forked go on. A template and its containers share address-space
layout and secrets of the warm-up: use one template per tenant.",
)
.options(&[&[
    &BUNDLE,
    &CONFIG,
    &FOR,
    &READY_WITHIN,
    &SAVE,
    &FROM,
    &KILL_CHILDREN,
    &LS_FORMAT,
    &TRACE,
]])
.arguments("ACTION [NAME]")
.examples(&[
    ("template create --bundle /srv/resize resize", "warm up the program of a bundle"),
    (
        "template create --bundle /srv/resize --from /srv/saved resize",
        "make a template that --save /srv/saved has saved",
    ),
    ("template ls", "list templates and the number of their containers"),
    ("template rm resize", "end the template resize"),
]);
