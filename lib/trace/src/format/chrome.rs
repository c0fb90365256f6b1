//! Chrome's trace events as JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing can open. Each row is a track,
//! each span a complete event, and each hand-over a flow arrow. Times are in microseconds since the start.
//!
//! Reference: Trace Event Format (Google, 2016), sections Complete Events, Flow Events and Metadata Events.

use core::fmt::{self, Write};

use alloc::string::String;
use alloc::vec::Vec;

use super::nest::{Place, places};
use super::text::{Exact, Json, awaited, error, origin};
use crate::{Row, Timeline};

/// Writes the events.
pub fn write(out: &mut dyn Write, timeline: &Timeline) -> fmt::Result {
    let chrome = Chrome { timeline, origin: origin(timeline), tracks: tracks(timeline) };
    out.write_str("{\"displayTimeUnit\":\"ns\",\"otherData\":{")?;
    let (command, id) = (Json(&timeline.command), Json(&timeline.id));
    write!(out, "\"command\":{command},\"id\":{id}")?;
    for (index, note) in timeline.notes.iter().enumerate() {
        write!(out, ",\"note {}\":{}", index + 1, Json(note))?;
    }
    for (index, row) in timeline.rows.iter().enumerate().filter(|(_, row)| row.lost > 0) {
        write!(out, ",\"lost steps of row {index}\":\"{}\"", row.lost)?;
    }
    out.write_str("},\"traceEvents\":[")?;
    let mut events = Events { out, any: false };
    chrome.names(&mut events)?;
    chrome.slices(&mut events)?;
    chrome.arrows(&mut events)?;
    events.out.write_str("\n]}\n")
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

/// The list of events.
struct Events<'a> {
    out: &'a mut dyn Write,
    any: bool,
}

impl Events<'_> {
    /// Writes the beginning of an event, with the keys that all events have.
    fn event(&mut self, ph: &str, name: &str, (pid, tid): (u64, u64)) -> fmt::Result {
        let comma = if core::mem::replace(&mut self.any, true) { "," } else { "" };
        let name = Json(name);
        write!(self.out, "{comma}\n{{\"ph\":\"{ph}\",\"name\":{name},\"pid\":{pid},\"tid\":{tid}")
    }

    fn metadata(
        &mut self,
        name: &str,
        at: (u64, u64),
        key: &str,
        value: &dyn fmt::Display,
    ) -> fmt::Result {
        self.event("M", name, at)?;
        write!(self.out, ",\"args\":{{\"{key}\":{value}}}}}")
    }
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
    fn names(&self, events: &mut Events<'_>) -> fmt::Result {
        let mut threads = 0u64;
        for (index, (row, track)) in self.rows().enumerate() {
            let at = (track.pid, track.tid);
            if self.tracks.iter().position(|other| other.pid == track.pid) == Some(index) {
                let mut name = String::new();
                for (other, _) in self.rows().filter(|(_, other)| other.pid == track.pid) {
                    let comma = if name.is_empty() { "" } else { ", " };
                    write!(name, "{comma}{}", other.name)?;
                }
                events.metadata("process_name", at, "name", &Json(&name))?;
                events.metadata("process_sort_index", at, "sort_index", &index)?;
            }
            for lane in 0..track.lanes {
                let at = (track.pid, track.tid + lane);
                events.metadata("thread_name", at, "name", &Json(&row.name))?;
                events.metadata("thread_sort_index", at, "sort_index", &threads)?;
                threads += 1;
            }
        }
        Ok(())
    }

    fn slices(&self, events: &mut Events<'_>) -> fmt::Result {
        for (row, track) in self.rows() {
            for (span, place) in row.spans.iter().zip(&track.places) {
                events.event("X", &span.name, (track.pid, track.tid + place.lane as u64))?;
                let (ts, dur) = (self.at(span.start), Exact(span.took()));
                let out = &mut *events.out;
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
                out.write_str("}}")?;
            }
        }
        Ok(())
    }

    fn arrows(&self, events: &mut Events<'_>) -> fmt::Result {
        for (id, arrow) in self.timeline.handovers().into_iter().enumerate() {
            let (from, to) = (self.bind(arrow.from, false), self.bind(arrow.to, true));
            let (Some((from, begin)), Some((to, end))) = (from, to) else { continue };
            if begin > end {
                continue;
            }
            events.event("s", "hand-over", from)?;
            let ts = self.at(begin);
            write!(events.out, ",\"cat\":\"hand-over\",\"id\":{id},\"ts\":{ts}}}")?;
            events.event("f", "hand-over", to)?;
            let ts = self.at(end);
            write!(events.out, ",\"cat\":\"hand-over\",\"id\":{id},\"bp\":\"e\",\"ts\":{ts}}}")?;
        }
        Ok(())
    }

    /// Returns the track and the time for one end of an arrow. Viewers attach an arrow to the slice that is open at
    /// that time, so the returned time is inside a slice: the slice that is open just before `time`. If no slice is
    /// open then, the last slice before `time` is used or, if the arrow points `to` the row, the first slice after
    /// `time`.
    fn bind(&self, (row, time): (usize, u64), to: bool) -> Option<((u64, u64), u64)> {
        let (row, track) = (self.timeline.rows.get(row)?, self.tracks.get(row)?);
        let span = |index: usize| row.spans.get(index);
        let spans = || row.spans.iter().enumerate().filter(|(_, span)| span.end > span.start);
        let open = spans().filter(|(_, span)| span.start < time && time <= span.end);
        let open = open.max_by_key(|(_, span)| span.start);
        let beside = || match to {
            true => spans().filter(|(_, span)| span.start >= time).min_by_key(|(_, s)| s.start),
            false => spans().filter(|(_, span)| span.end < time).max_by_key(|(_, s)| s.end),
        };
        let (index, _) = open.or_else(beside)?;
        let (span, place) = (span(index)?, track.places.get(index)?);
        let moment = time.saturating_sub(1).clamp(span.start, span.end - 1);
        Some(((track.pid, track.tid + place.lane as u64), moment))
    }

    fn at(&self, time: u64) -> Exact {
        Exact(time.saturating_sub(self.origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    /// Converts a time of an event from microseconds to nanoseconds.
    fn time(event: &Value, key: &str) -> u64 {
        let text = event[key].as_number().expect(key).to_string();
        let micros: f64 = text.parse().unwrap();
        (micros * 1000.0).round() as u64
    }

    /// Checks that a trace follows the rules of the Trace Event Format. Returns the number of events of each kind.
    fn check(text: &str) -> BTreeMap<String, usize> {
        let trace: Value = serde_json::from_str(text).unwrap();
        assert!(["ms", "ns"].contains(&trace["displayTimeUnit"].as_str().unwrap()));
        let mut slices: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        let (mut flows, mut named, mut kinds) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        for event in trace["traceEvents"].as_array().unwrap() {
            let text = |key: &str| event[key].as_str().unwrap_or_else(|| panic!("{key}: {event}"));
            let number =
                |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key}: {event}"));
            let track = (number("pid"), number("tid"));
            *kinds.entry(text("ph").to_string()).or_default() += 1;
            match text("ph") {
                "M" => match text("name") {
                    "process_name" => assert!(event["args"]["name"].is_string()),
                    "thread_name" => {
                        assert!(event["args"]["name"].is_string());
                        assert!(named.insert(track), "a track is named once");
                    }
                    "process_sort_index" | "thread_sort_index" => {
                        assert!(event["args"]["sort_index"].is_u64());
                    }
                    other => panic!("{other}"),
                },
                "X" => {
                    assert!(event["name"].is_string() && event["args"].is_object());
                    assert!(event["cat"].is_string());
                    let ts = time(event, "ts");
                    slices.entry(track).or_default().push((ts, ts + time(event, "dur")));
                }
                ph @ ("s" | "f") => {
                    assert_eq!(event.get("bp").and_then(Value::as_str), (ph == "f").then_some("e"));
                    let key = (number("id"), text("cat").to_string(), text("name").to_string());
                    flows.push((key, ph.to_string(), track, time(event, "ts")));
                }
                other => panic!("{other}"),
            }
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
            let [(key, s, _, from), (other, f, _, to)] = pair else { panic!("{pair:?}") };
            assert_eq!((key, &**s, &**f), (other, "s", "f"));
            assert!(from <= to, "arrows point forwards");
        }
        let ids: BTreeSet<_> = flows.iter().map(|(key, ..)| key).collect();
        assert_eq!(ids.len() * 2, flows.len());
        for (_, _, track, at) in &flows {
            let open = slices[track].iter().any(|(start, end)| start <= at && at < end);
            assert!(open, "an arrow ends in a slice");
        }
        kinds
    }

    fn chrome(timeline: &Timeline) -> String {
        let mut text = String::new();
        write(&mut text, timeline).unwrap();
        text
    }

    #[test]
    fn the_samples_follow_the_rules_and_keep_each_span_and_arrow() {
        for timeline in [sample::start(), sample::long(), sample::failed(), sample::threads()] {
            let kinds = check(&chrome(&timeline));
            let spans: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
            assert_eq!(kinds["X"], spans);
            let arrows = timeline.handovers();
            let arrows = arrows.iter().filter(|arrow| timeline.rows.get(arrow.from.0).is_some());
            let arrows = arrows.filter(|arrow| arrow.from.0 < timeline.rows.len()).count();
            assert_eq!(kinds.get("s").copied().unwrap_or(0), arrows);
        }
    }

    #[test]
    fn init_and_its_program_are_threads_of_one_process() {
        let timeline = sample::start();
        let tracks = tracks(&timeline);
        assert_eq!(tracks[2].pid, tracks[3].pid);
        assert_ne!(tracks[2].tid, tracks[3].tid);
        let text = chrome(&timeline);
        assert!(text.contains("\"name\":\"init, program\""));
        assert!(text.contains("\"object\":\"proc on /proc\""));
        assert!(text.contains("\"awaits\":\"init\""));
        assert!(
            chrome(&sample::failed()).contains("\"errno\":1,\"error\":\"operation not permitted\"")
        );
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
            check(&chrome(&timeline));
        }
    }
}
