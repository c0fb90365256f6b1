//! The options of `template`.

use crate::option::{Kind, Opt};

/// The time within which a template must serve requests.
pub static READY_WITHIN: Opt = Opt::new(
    "ready-within",
    Kind::Duration,
    "TIME",
    "create: end the template if it does not wait for requests after this time (default: 60s)",
);
/// The containers that may name the template by an annotation.
pub static FOR: Opt = Opt::text(
    "for",
    "KEY=VALUE",
    "create: containers with this annotation may name the template by the annotation run.dayfly.template; without it, only --template can",
);
/// Kills the containers that a template has forked.
pub static KILL_CHILDREN: Opt =
    Opt::flag("force", "rm: kill the containers that the template has forked, too").short('f');

/// The format of the list.
pub static LS_FORMAT: Opt =
    Opt::text("format", "FORMAT", "ls: table (default) or json").choices(&["table", "json"]);
