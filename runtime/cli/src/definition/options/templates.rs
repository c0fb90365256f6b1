//! The options of `template`.

use crate::option::{Kind, Opt};

/// The time within which a template must serve requests.
pub const READY_WITHIN: Opt = Opt::new(
    "--ready-within TIME",
    "create: end the template if it does not wait for requests after this time (default: 60s)",
)
.kind(Kind::Duration);
/// The containers that may name the template by an annotation.
pub const FOR: Opt = Opt::new(
    "--for KEY=VALUE",
    "create: containers with this annotation may name the template by the annotation run.dayfly.template; without it, only --template can",
);
/// The directory to which a template is saved.
pub const SAVE: Opt = Opt::new(
    "--save DIR",
    "create: save the template to this directory after its warm-up, and make it from there",
);
/// The directory of a saved template.
pub const FROM: Opt = Opt::new(
    "--from DIR",
    "create: make the template from this directory of --save, without a warm-up",
);
/// Kills the containers that a template has forked.
pub const KILL_CHILDREN: Opt =
    Opt::new("-f, --force", "rm: kill the containers that the template has forked, too");

/// The format of the list.
pub const LS_FORMAT: Opt =
    Opt::new("--format FORMAT", "ls: table (default) or json").choices(&["table", "json"]);
