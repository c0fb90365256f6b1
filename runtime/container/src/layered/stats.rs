//! Describes how a root filesystem was assembled and how long that took: for `run --stats`, and in a line of traces.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use rootfs::ids::RANGE;
use rootfs::{Counts, Recipe};
use trace::{Phase, Timeline};

/// Returns a one-line description of a container's root filesystem.
pub(crate) fn line(recipe: &Recipe, counts: Counts) -> String {
    let on_host = counts.attached + counts.detached;
    format!(
        "rootfs: {} mode, {} layer{}; {on_host} mount operation{} on the host, 1 in the container",
        recipe.mode.name(),
        recipe.layers.len(),
        if recipe.layers.len() == 1 { "" } else { "s" },
        if on_host == 1 { "" } else { "s" },
    )
}

/// Returns a detailed description, with times from the trace.
pub(crate) fn text(recipe: &Recipe, counts: Counts, timeline: &Timeline) -> String {
    /// The names of steps that only a root filesystem from layers needs.
    const OWN: [&str; 10] = [
        "prepare layers",
        "make directory",
        "make user namespace",
        "map layers",
        "open layers",
        "make upper",
        "assemble rootfs",
        "detach layers",
        "copy layers",
        "attach root",
    ];
    /// Steps of init that change its mount table, each with the number of changes.
    const INSIDE: [(&str, u32); 6] = [
        ("attach tree", 1),
        ("mount", 1),
        ("mask", 1),
        ("make read-only", 1),
        ("pivot root", 2),
        ("change root", 1),
    ];
    let spans = || timeline.rows.iter().flat_map(|row| &row.spans).filter(|span| span.errno == 0);
    let others: u32 = spans()
        .filter_map(|span| INSIDE.iter().find(|(name, _)| *name == span.name))
        .map(|(_, count)| *count)
        .sum();
    let mut text =
        format!("rootfs mode: {}\nlayers: {}\n", recipe.mode.name(), recipe.layers.len());
    if let Some((first, _)) = recipe.root {
        let _ = writeln!(text, "ids: {first}-{}", u64::from(first) + u64::from(RANGE) - 1);
    }
    let Counts { attached, detached } = counts;
    let _ = writeln!(
        text,
        "mount operations on the host: {} ({attached} attached, {detached} detached)",
        attached + detached
    );
    let _ = writeln!(
        text,
        "mount operations in the container: {} (1 for the root filesystem, {others} for others)",
        others + 1
    );
    let mut sum = 0;
    let mut parts = String::new();
    for name in OWN {
        let took: u64 = spans().filter(|span| span.name == name).map(|span| span.took()).sum();
        if took > 0 {
            let _ = write!(parts, ", {name} {}", Milliseconds(took));
            sum += took;
        }
    }
    let parts = parts.trim_start_matches(", ");
    let _ = writeln!(text, "time for layers: {} ({parts})", Milliseconds(sum));
    let program = spans().filter(|span| span.phase == Phase::Program).map(|span| span.start).min();
    if let Some(program) = program {
        let start = Milliseconds(program.saturating_sub(timeline.start()));
        let _ = writeln!(text, "time to start: {start}");
    }
    text
}

/// Nanoseconds, printed as milliseconds with three decimals.
struct Milliseconds(u64);

impl core::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{:03} ms", self.0 / 1_000_000, self.0 / 1000 % 1000)
    }
}
