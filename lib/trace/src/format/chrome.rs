//! Chrome's trace events as JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing can open. Each row is a track,
//! each span a complete event, and each hand-over a flow arrow. Times are in microseconds since the start.
//!
//! Reference: Trace Event Format (Google, 2016), sections Complete Events, Flow Events and Metadata Events.

use core::fmt::{self, Write};

use alloc::string::String;
use alloc::vec::Vec;

use super::places::{Place, places};
use super::text::{Exact, awaited, error, origin};
use crate::{Row, Timeline};

/// Writes the events.
pub fn write(out: &mut String, timeline: &Timeline) -> fmt::Result {
    let chrome = Chrome { timeline, origin: origin(timeline), tracks: tracks(timeline) };
    out.push_str("{\"displayTimeUnit\":\"ns\",\"otherData\":{");
    let (command, id) = (Json(&timeline.command), Json(&timeline.id));
    write!(out, "\"command\":{command},\"id\":{id}")?;
    for (index, note) in timeline.notes.iter().enumerate() {
        write!(out, ",\"note {}\":{}", index + 1, Json(note))?;
    }
    for (index, row) in timeline.rows.iter().enumerate().filter(|(_, row)| row.lost > 0) {
        write!(out, ",\"lost steps of row {index}\":\"{}\"", row.lost)?;
    }
    out.push_str("},\"traceEvents\":[");
    chrome.names(out)?;
    chrome.slices(out)?;
    chrome.arrows(out)?;
    out.push_str("\n]}\n");
    Ok(())
}

/// Displays a string as JSON.
struct Json<'a>(&'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// Writes the beginning of an event, with the keys that all events have.
fn event(out: &mut String, ph: &str, name: &str, (pid, tid): (u64, u64)) -> fmt::Result {
    let comma = if out.ends_with('[') { "" } else { "," };
    let name = Json(name);
    write!(out, "{comma}\n{{\"ph\":\"{ph}\",\"name\":{name},\"pid\":{pid},\"tid\":{tid}")
}

/// Writes the name or the place of a process or thread.
fn metadata(
    out: &mut String,
    name: &str,
    at: (u64, u64),
    key: &str,
    value: &dyn fmt::Display,
) -> fmt::Result {
    event(out, "M", name, at)?;
    write!(out, ",\"args\":{{\"{key}\":{value}}}}}")
}

/// The track in which a row is drawn.
struct Track {
    pid: u64,
    /// The thread id of the track's first lane; the other lanes follow.
    tid: u64,
    lanes: u64,
    places: Vec<Place>,
}

/// Returns the track of each row. Rows of the same process, such as the container's init and its program, have the same
/// pid and different thread ids. All thread ids are unique, because Perfetto identifies threads by the thread id alone.
fn tracks(timeline: &Timeline) -> Vec<Track> {
    let pid = |row: &Row| u64::try_from(row.pid).ok().filter(|pid| *pid > 0);
    let mut free = timeline.rows.iter().filter_map(pid).max().unwrap_or(0) + 1;
    let mut tracks: Vec<Track> = Vec::with_capacity(timeline.rows.len());
    for row in &timeline.rows {
        let places = places(row);
        let lanes = places.iter().map(|place| place.lane).max().unwrap_or(0) as u64 + 1;
        let own = pid(row).filter(|pid| lanes == 1 && tracks.iter().all(|track| track.pid != *pid));
        let tid = own.unwrap_or(free);
        if own.is_none() {
            free += lanes;
        }
        tracks.push(Track { pid: pid(row).unwrap_or(tid), tid, lanes, places });
    }
    tracks
}

struct Chrome<'a> {
    timeline: &'a Timeline,
    origin: u64,
    tracks: Vec<Track>,
}

impl<'a> Chrome<'a> {
    fn rows(&self) -> impl Iterator<Item = (&'a Row, &Track)> {
        self.timeline.rows.iter().zip(&self.tracks)
    }

    /// Writes the names and the order of processes and threads.
    fn names(&self, out: &mut String) -> fmt::Result {
        let mut threads = 0u64;
        for (index, (row, track)) in self.rows().enumerate() {
            let at = (track.pid, track.tid);
            if self.tracks.iter().position(|other| other.pid == track.pid) == Some(index) {
                let mut name = String::new();
                for (other, _) in self.rows().filter(|(_, other)| other.pid == track.pid) {
                    let comma = if name.is_empty() { "" } else { ", " };
                    write!(name, "{comma}{}", other.name)?;
                }
                metadata(out, "process_name", at, "name", &Json(&name))?;
                metadata(out, "process_sort_index", at, "sort_index", &index)?;
            }
            for lane in 0..track.lanes {
                let at = (track.pid, track.tid + lane);
                metadata(out, "thread_name", at, "name", &Json(&row.name))?;
                metadata(out, "thread_sort_index", at, "sort_index", &threads)?;
                threads += 1;
            }
        }
        Ok(())
    }

    fn slices(&self, out: &mut String) -> fmt::Result {
        for (row, track) in self.rows() {
            for (span, place) in row.spans.iter().zip(&track.places) {
                event(out, "X", &span.name, (track.pid, track.tid + place.lane as u64))?;
                let (ts, dur) = (self.at(span.start), Exact(span.took()));
                write!(out, ",\"cat\":\"{}\",\"ts\":{ts},\"dur\":{dur},\"args\":{{", span.phase)?;
                write!(out, "\"object\":{}", Json(&span.object))?;
                if span.errno != 0 {
                    write!(out, ",\"errno\":{}", span.errno)?;
                }
                if let Some(error) = error(span) {
                    write!(out, ",\"error\":\"{error}\"")?;
                }
                if let Some(whom) = awaited(self.timeline, span) {
                    write!(out, ",\"awaits\":{}", Json(whom))?;
                }
                out.push_str("}}");
            }
        }
        Ok(())
    }

    fn arrows(&self, out: &mut String) -> fmt::Result {
        for (id, arrow) in self.timeline.handovers().into_iter().enumerate() {
            let (from, to) = (self.bind(arrow.from, false), self.bind(arrow.to, true));
            let (Some((from, begin)), Some((to, end))) = (from, to) else { continue };
            if begin > end {
                continue;
            }
            event(out, "s", "hand-over", from)?;
            let ts = self.at(begin);
            write!(out, ",\"cat\":\"hand-over\",\"id\":{id},\"ts\":{ts}}}")?;
            event(out, "f", "hand-over", to)?;
            let ts = self.at(end);
            write!(out, ",\"cat\":\"hand-over\",\"id\":{id},\"bp\":\"e\",\"ts\":{ts}}}")?;
        }
        Ok(())
    }

    /// Returns the track and the time for one end of an arrow. Viewers attach an arrow to the slice that is open at
    /// that time, so the returned time is inside a slice: the slice that is open just before `time`. If no slice is
    /// open then, the last slice before `time` is used or, if the arrow points `to` the row, the first slice after
    /// `time`.
    fn bind(&self, (row, time): (usize, u64), to: bool) -> Option<((u64, u64), u64)> {
        let (row, track) = (self.timeline.rows.get(row)?, self.tracks.get(row)?);
        let spans =
            || row.spans.iter().zip(&track.places).filter(|(span, _)| span.end > span.start);
        let open = spans().filter(|(span, _)| span.start < time && time <= span.end);
        let open = open.max_by_key(|(span, _)| span.start);
        let beside = || match to {
            true => spans().filter(|(span, _)| span.start >= time).min_by_key(|(s, _)| s.start),
            false => spans().filter(|(span, _)| span.end < time).max_by_key(|(s, _)| s.end),
        };
        let (span, place) = open.or_else(beside)?;
        let moment = time.saturating_sub(1).clamp(span.start, span.end - 1);
        Some(((track.pid, track.tid + place.lane as u64), moment))
    }

    fn at(&self, time: u64) -> Exact {
        Exact(time.saturating_sub(self.origin))
    }
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::format::sample;
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Deserialize)]
    struct Trace {
        #[serde(rename = "displayTimeUnit")]
        unit: String,
        #[serde(rename = "traceEvents")]
        events: Vec<Event>,
    }

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Event {
        ph: String,
        name: String,
        pid: Option<u64>,
        tid: Option<u64>,
        cat: String,
        ts: f64,
        dur: f64,
        id: u64,
        bp: Option<String>,
        args: Value,
    }

    /// Checks that a trace follows the rules of the Trace Event Format. Returns the number of events of each kind.
    fn check(text: &str) -> BTreeMap<String, usize> {
        let trace: Trace = serde_json::from_str(text).unwrap();
        assert_eq!(trace.unit, "ns");
        let nanoseconds =
            |micros: f64| -> u64 { format!("{:.0}", micros * 1000.0).parse().unwrap() };
        let mut slices: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        let (mut flows, mut named, mut kinds) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        for Event { ph, name, pid, tid, cat, ts, dur, id, bp, args } in trace.events {
            let (track, at) = ((pid.unwrap(), tid.unwrap()), nanoseconds(ts));
            match (&*ph, &*name) {
                ("M", "process_name") => assert!(args["name"].is_string()),
                ("M", "thread_name") => {
                    assert!(args["name"].is_string());
                    assert!(named.insert(track), "a track is named once");
                }
                ("M", "process_sort_index" | "thread_sort_index") => {
                    assert!(args["sort_index"].is_u64());
                }
                ("X", _) => {
                    assert!(args.is_object() && !cat.is_empty());
                    slices.entry(track).or_default().push((at, at + nanoseconds(dur)));
                }
                ("s" | "f", "hand-over") => {
                    assert_eq!(bp.as_deref(), (ph == "f").then_some("e"));
                    flows.push((id, ph.clone(), track, at));
                }
                other => panic!("{other:?}"),
            }
            *kinds.entry(ph).or_default() += 1;
        }
        for (track, slices) in &mut slices {
            assert!(named.contains(track));
            slices.sort_by_key(|&(start, end)| (start, u64::MAX - end));
            let mut open: Vec<u64> = Vec::new();
            for &(start, end) in slices.iter() {
                while open.last().is_some_and(|&last| last <= start) {
                    open.pop();
                }
                assert!(open.last().is_none_or(|&last| end <= last), "slices nest");
                open.push(end);
            }
        }
        for pair in flows.chunks(2) {
            let [(id, s, _, from), (other, f, _, to)] = pair else { panic!("{pair:?}") };
            assert_eq!((id, &**s, &**f), (other, "s", "f"));
            assert!(from <= to, "arrows point forwards");
        }
        let ids: BTreeSet<_> = flows.iter().map(|(id, ..)| id).collect();
        assert_eq!(ids.len() * 2, flows.len());
        for (_, _, track, at) in &flows {
            let open = slices[track].iter().any(|(start, end)| start <= at && at < end);
            assert!(open, "an arrow ends in a slice");
        }
        kinds
    }

    #[test]
    fn samples_keep_each_span_and_arrow() {
        for timeline in ["run", "failed"].map(sample::read) {
            let kinds = check(&Format::Chrome.text(&timeline));
            let spans: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
            assert_eq!(kinds["X"], spans);
            let arrows = timeline.handovers();
            let arrows = arrows.iter().filter(|arrow| timeline.rows.get(arrow.from.0).is_some());
            assert_eq!(kinds.get("s").copied().unwrap_or(0), arrows.count());
        }
    }

    proptest! {
        #[test]
        fn anything_follows_the_rules(mut timeline in sample::anything()) {
            // A JSON reader that parses numbers as floats can distinguish these times.
            for row in &mut timeline.rows {
                (row.start, row.end) = (row.start % 5000, row.end % 5000);
                for span in &mut row.spans {
                    (span.start, span.end) = (span.start % 5000, span.end % 5000);
                }
            }
            check(&Format::Chrome.text(&timeline));
        }
    }
}
