//! The papers and articles, one per file.

mod container_runtime;
mod favordynmods;
mod five_ms;
mod functions;
mod groups;
mod mounts;

pub(super) use container_runtime::CONTAINER_RUNTIME;
pub(super) use favordynmods::FAVORDYNMODS;
pub(super) use five_ms::FIVE_MS;
pub(super) use groups::GROUPS;
pub(super) use mounts::MOUNTS;

use super::paper::{Line, Published};
use super::take::{Figure, Take};

/// Returns a line of the report whose unit is milliseconds.
const fn ms(what: &'static str, published: &'static [Published], take: Take) -> Line {
    Line { what, published, take, unit: "ms" }
}

/// Selects a figure of a verdict of `dayfly host check`, and converts it from microseconds to milliseconds.
const fn verdict(id: &'static [(&'static str, &'static str)], figure: &'static str) -> Take {
    Take {
        rows: "/sections/*/verdicts",
        only: id,
        by: "",
        figure: Figure::Number(figure),
        scale: 1e-3,
    }
}
