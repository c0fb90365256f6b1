//! Sample time lines for testing the formats.

use proptest::prelude::*;

use crate::{Awaited, Phase, Row, Span, Timeline};

/// Returns the path of a file with a sample.
pub fn path(name: &str, suffix: &str) -> String {
    format!("{}/samples/{name}{suffix}", env!("CARGO_MANIFEST_DIR"))
}

/// Reads a sample: `run`, whose program runs for two seconds, or `failed`, a start that failed in a mount, with steps
/// of concurrent threads, and without some steps of its first row.
pub fn read(name: &str) -> Timeline {
    let text = std::fs::read_to_string(path(name, ".jsonl")).unwrap();
    Timeline::from_lines(&text).unwrap()
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..1000, 1 => any::<u64>()]
}

prop_compose! {
    fn span()(
        phase in 0usize..9,
        name in "\\PC{0,6}|[\\x00-\\x7f]{0,4}|mount|admit",
        object in "\\PC{0,12}|[\\x00-\\x7f]{0,6}|/dev",
        start in time(),
        end in time(),
        wait in proptest::option::of(
            prop_oneof![3 => (0usize..6).prop_map(Awaited::Row), 1 => Just(Awaited::Other)]
        ),
        errno in prop_oneof![0u16..200, any::<u16>()],
    ) -> Span {
        Span { phase: Phase::ALL[phase], name, object, start, end, wait, errno }
    }
}

prop_compose! {
    fn row()(
        name in "parent|init|\\PC{0,20}|[\\x00-\\x7f]{0,4}",
        pid in prop_oneof![1i32..4, any::<i32>()],
        parent in proptest::option::of(prop_oneof![0usize..6, any::<usize>()]),
        start in time(),
        end in time(),
        spans in proptest::collection::vec(span(), 0..14),
        lost in prop_oneof![Just(0), any::<u64>()],
    ) -> Row {
        Row { name, pid, parent, start, end, spans, lost }
    }
}

prop_compose! {
    /// Generates arbitrary time lines, including inconsistent ones.
    pub fn anything()(
        command in any::<String>(),
        id in any::<String>(),
        rows in proptest::collection::vec(row(), 0..6),
        notes in proptest::collection::vec("\\PC{0,30}|[\\x00-\\x7f]{0,6}", 0..3),
    ) -> Timeline {
        Timeline { command, id, rows, notes }
    }
}
