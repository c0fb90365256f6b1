//! An SVG picture, with a lane per row, a box per span in the colour of its phase, arrows for hand-overs, and a line
//! below the boxes for the critical path. It is self-contained: it needs no scripts, fonts or external resources.

mod lane;
mod scale;

use core::fmt::{self, Write};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use self::lane::{GAP, LEVEL, LINE, Lane, PATH, SMALL, fit, within};
use self::scale::{LEFT, MARGIN, Px, Scale, Tick, WIDTH};
use super::text::{Time, awaited, notes, share, step};
use crate::account::phase_sums;
use crate::timeline::Handover;
use crate::{Account, Phase, Row, Span, Timeline, critical_path};

/// Returns the colour of a phase and the colour of text on it, from the Okabe-Ito palette, which colour-blind people
/// can distinguish.
const fn colours(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Security => ("#d55e00", "#111"),
        Phase::Mounts => ("#0072b2", "#fff"),
        Phase::Platform => ("#009e73", "#111"),
        Phase::Cgroups => ("#e69f00", "#111"),
        Phase::Bootstrap => ("#cc79a7", "#111"),
        Phase::Sync => ("#f0e442", "#111"),
        Phase::Configuration => ("#56b4e9", "#111"),
        Phase::Shutdown => ("#444", "#fff"),
        Phase::Program => ("#a8a8a8", "#111"),
    }
}

/// Writes the picture.
pub fn write(out: &mut String, timeline: &Timeline) -> fmt::Result {
    let scale = Scale::of(timeline);
    let mut arrows = timeline.handovers();
    arrows.retain(|arrow| arrow.from.0 != arrow.to.0);
    let accounts: Vec<Account> = timeline.rows.iter().map(Account::of).collect();
    let legend = legend(timeline, &accounts);
    let lines = legend.len().div_ceil(ENTRIES) as u64;
    let axis = LEGEND + lines * ENTRY + if scale.quiet.is_some() { 42 } else { 30 };

    let mut lanes: Vec<Lane<'_>> = Vec::with_capacity(timeline.rows.len());
    let mut bottom = axis + 16;
    for (index, row) in timeline.rows.iter().enumerate() {
        let lane = Lane::new(row, &scale, bottom, taken(&arrows, &scale, index));
        bottom += lane.height();
        lanes.push(lane);
    }
    let notes = notes(timeline).filter_map(|note| fit(&note, SMALL, (WIDTH - 2 * MARGIN) * 10));
    let notes: Vec<String> = notes.collect();
    let height = bottom + notes.len() as u64 * 18 + MARGIN;

    let picture = Picture { timeline, scale, lanes, axis, bottom };
    picture.head(out, height)?;
    for (place, entry) in legend.iter().enumerate() {
        entry.write(out, place as u64)?;
    }
    picture.axis(out)?;
    picture.lives(out)?;
    picture.arrows(out, &arrows)?;
    picture.boxes(out, &accounts)?;
    picture.path(out)?;
    picture.labels(out)?;
    picture.gap(out)?;
    for (index, note) in notes.iter().enumerate() {
        text(out, (Px(MARGIN * 10), bottom + 16 + index as u64 * 18), "class=\"q\"", note)?;
    }
    out.write_str("</svg>\n")
}

/// The number of entries of the legend in a line.
const ENTRIES: usize = 7;
/// The vertical position of the legend, and the height of an entry, in pixels.
const LEGEND: u64 = 58;
const ENTRY: u64 = 40;

/// An entry of the legend: the element and the attributes of its mark, a name, and what it means or adds up to.
struct Entry(&'static str, String, &'static str, String);

impl Entry {
    /// Writes the entry at the position with the index `place`.
    fn write(&self, out: &mut String, place: u64) -> fmt::Result {
        let Self(mark, fill, name, value) = self;
        let columns = ENTRIES as u64;
        let x = MARGIN + place % columns * (WIDTH - 2 * MARGIN) / columns;
        let y = LEGEND + place / columns * ENTRY;
        writeln!(out, "<g transform=\"translate({x} {y})\"><{mark} {fill}/>")?;
        text(out, (Px(240), 12), "font-size=\"12\" font-weight=\"bold\"", name)?;
        text(out, (Px(240), 26), "class=\"q\"", value)?;
        out.write_str("</g>\n")
    }
}

/// Returns the legend: the time per phase, and the colours and lines of the picture.
fn legend(timeline: &Timeline, accounts: &[Account]) -> Vec<Entry> {
    const SWATCH: &str = "rect width=\"16\" height=\"16\"";
    let sums = phase_sums(timeline, accounts);
    let total = sums.iter().map(|sum| sum.time).fold(0, u64::saturating_add);
    let fill = |phase| format!("fill=\"{}\"", colours(phase).0);
    let phase = |sum: crate::account::PhaseSum| {
        let share = share(sum.time, total);
        let value = format!("{}, {}.{} %", Time(sum.time), share / 10, share % 10);
        Entry(SWATCH, fill(sum.phase), sum.phase.name(), value)
    };
    let mut entries: Vec<Entry> = sums.into_iter().map(phase).collect();
    let mut time = |fill: String, name, of: &dyn Fn(&Row, &Account) -> u64| {
        let times = timeline.rows.iter().zip(accounts).map(|(row, account)| of(row, account));
        let sum = times.fold(0, u64::saturating_add);
        if sum > 0 {
            entries.push(Entry(SWATCH, fill, name, format!("{}", Time(sum))));
        }
    };
    time(fill(Phase::Program), "program", &|row, account| account.work(row, Phase::Program));
    time("fill=\"url(#w)\" stroke=\"#ccc\"".into(), "waiting", &|row, account| account.waited(row));
    time("class=\"l\"".into(), "between steps", &|_, account| account.between);
    let mut meaning = |mark, fill: &str, name, value: &str| {
        entries.push(Entry(mark, fill.into(), name, value.into()));
    };
    if timeline.rows.iter().flat_map(|row| &row.spans).any(|span| span.errno != 0) {
        meaning(SWATCH, "class=\"f\" fill=\"#fff\"", "failed", "the step has an error");
    }
    meaning("path", "class=\"c\" d=\"M0 8H16\"", "critical path", "what the end waited for");
    meaning("path", "class=\"a\" d=\"M0 8H16\"", "hand-over", "birth, or end of a wait");
    entries
}

/// Returns the horizontal ranges below a row in which no labels are allowed, because of arrows or because of the period
/// that the time axis shortens.
fn taken(arrows: &[Handover], scale: &Scale, row: usize) -> Vec<(u64, u64)> {
    let through = arrows.iter().filter(|arrow| {
        let (from, to) = (arrow.from.0, arrow.to.0);
        from.min(to) <= row && row < from.max(to)
    });
    // Arrows bend below the labels.
    let upright = through.map(|arrow| if arrow.is_down() { arrow.from.1 } else { arrow.to.1 });
    let upright = upright.map(|time| (scale.x(time).0, scale.x(time).0));
    let short = scale.quiet.map(|(from, to)| (scale.x(from).0, scale.x(to).0));
    upright.chain(short).collect()
}

impl Handover {
    /// Returns whether the arrow points down, to a row below.
    fn is_down(&self) -> bool {
        self.from.0 < self.to.0
    }
}

struct Picture<'a> {
    timeline: &'a Timeline,
    scale: Scale,
    lanes: Vec<Lane<'a>>,
    axis: u64,
    bottom: u64,
}

impl Picture<'_> {
    fn head(&self, out: &mut String, height: u64) -> fmt::Result {
        let Timeline { command, id, .. } = self.timeline;
        let name = format!("{command} {id}");
        let name = fit(name.trim_end(), 20, 10_000).unwrap_or_default();
        let total = Time(self.scale.total());
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"{SMALL}\">\n\
             <title>{}: {total}</title>\n{STYLE}\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
            Xml(&name),
        )?;
        let title = Px(MARGIN * 10);
        writeln!(
            out,
            "<text x=\"{title}\" y=\"38\" font-size=\"20\" font-weight=\"bold\">{}\
             <tspan dx=\"14\" font-weight=\"normal\" fill=\"#555\">{total}</tspan></text>",
            Xml(&name),
        )
    }

    fn axis(&self, out: &mut String) -> fmt::Result {
        let (ticks, step) = self.scale.ticks();
        let (axis, bottom) = (self.axis, self.bottom - GAP / 2);
        for time in ticks {
            let x = self.scale.x_after(time);
            let label = Tick { time, step, last: self.scale.total() };
            writeln!(out, "<path class=\"g\" d=\"M{x} {axis}V{bottom}\"/>")?;
            text(out, (x, axis - 6), "class=\"q\" text-anchor=\"middle\"", &format!("{label}"))?;
        }
        Ok(())
    }

    /// Draws the rows' names and lifetimes.
    fn lives(&self, out: &mut String) -> fmt::Result {
        for lane in &self.lanes {
            let Row { name, pid, start, end, .. } = lane.row;
            let middle = (lane.top + lane.boxes_end()) / 2;
            let x = Px(MARGIN * 10);
            if let Some(name) = fit(name, 13, LEFT - MARGIN * 10 - 80) {
                text(out, (x, middle - 1), "font-size=\"13\" font-weight=\"bold\"", &name)?;
            }
            text(out, (x, middle + 13), "class=\"q\"", &format!("pid {pid}"))?;
            let (from, to) = (self.scale.x(*start), self.scale.x((*end).max(*start)));
            let (y, high) = (lane.top, lane.boxes_end() - lane.top - 2);
            let wide = Px(to.0 - from.0);
            writeln!(
                out,
                "<rect class=\"l\" x=\"{from}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\"/>"
            )?;
        }
        Ok(())
    }

    fn arrows(&self, out: &mut String, arrows: &[Handover]) -> fmt::Result {
        for arrow in arrows {
            let (Some(from), Some(to)) = (self.lanes.get(arrow.from.0), self.lanes.get(arrow.to.0))
            else {
                continue;
            };
            let (x1, x2) = (self.scale.x(arrow.from.1), self.scale.x(arrow.to.1));
            let down = arrow.is_down();
            let (y1, y2) = match down {
                true => (from.boxes_end(), to.top - 2),
                false => (from.top - 2, to.boxes_end() + 2),
            };
            // The arrow goes straight down beside the labels, and then sideways in the gap before its end.
            let turn = if down { to.top - GAP } else { from.top - 2 };
            let over = if down { to.top - 8 } else { from.top - GAP + 8 };
            writeln!(
                out,
                "<path class=\"a\" d=\"M{x1} {y1}V{turn}C{x1} {over} {x2} {turn} {x2} {over}V{y2}\"/>"
            )?;
        }
        Ok(())
    }

    fn boxes(&self, out: &mut String, accounts: &[Account]) -> fmt::Result {
        for (lane, account) in self.lanes.iter().zip(accounts) {
            for (index, (span, &own)) in lane.row.spans.iter().zip(&account.own).enumerate() {
                let (from, to) = (self.scale.x(span.start), self.scale.x(span.end));
                let wide = to.0.saturating_sub(from.0);
                // If the box is wide enough, leave a gap between it and the next box.
                let wide = if wide > 25 { Px(wide - 5) } else { Px(wide.max(8)) };
                let (fill, ink) = match span.wait {
                    Some(_) => ("url(#w)", "#333"),
                    None => colours(span.phase),
                };
                let edge = match (span.errno, span.wait) {
                    (0, None) => "",
                    (0, Some(_)) => " class=\"h\"",
                    _ => " class=\"f\"",
                };
                let (y, high) = (lane.box_top(index), LEVEL - 2);
                write!(
                    out,
                    "<rect x=\"{from}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"{fill}\"{edge}>"
                )?;
                writeln!(out, "<title>{}</title></rect>", Xml(&self.tip(span, own)))?;
                if let Some((x, label)) = within(span, &self.scale) {
                    let attributes = format!("class=\"b\" fill=\"{ink}\"");
                    text(out, (x, y + 15), &attributes, &label)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the tooltip of a box.
    fn tip(&self, span: &Span, own: u64) -> String {
        let kind = match awaited(self.timeline, span) {
            Some("other") => "waiting".into(),
            Some(whom) => format!("waiting for {whom}"),
            None => String::from(span.phase.name()),
        };
        let mut tip = format!("{}\n{kind}, {}", step(span), Time(span.took()));
        if own != span.took() {
            tip += &format!(" ({} of its own)", Time(own));
        }
        tip + &format!(", at {}", Time(self.scale.at(span.start)))
    }

    fn path(&self, out: &mut String) -> fmt::Result {
        let path = critical_path(self.timeline);
        for visit in path.chunk_by(|a, b| a.row == b.row) {
            let (Some(first), Some(last)) = (visit.first(), visit.last()) else { continue };
            let Some(lane) = self.lanes.get(first.row) else { continue };
            let (from, to) = (self.scale.x(first.start), self.scale.x(last.end));
            let y = lane.boxes_end() + 2;
            writeln!(out, "<path class=\"c\" d=\"M{from} {y}H{to}\"/>")?;
        }
        Ok(())
    }

    fn labels(&self, out: &mut String) -> fmt::Result {
        for lane in &self.lanes {
            for label in &lane.labels.placed {
                let base = lane.boxes_end() + PATH + label.line as u64 * LINE + 10;
                let (x, start) = (Px(label.leader), Px(label.start));
                let top = lane.box_top(label.span) + LEVEL - 2;
                writeln!(out, "<path class=\"t\" d=\"M{x} {top}V{base}\"/>")?;
                text(out, (start, base), "class=\"s\"", &label.text)?;
            }
        }
        Ok(())
    }

    /// Draws the marks of the period that the time axis shortens: two strokes through the lanes, and the duration of
    /// the period.
    fn gap(&self, out: &mut String) -> fmt::Result {
        let Some((from, to)) = self.scale.quiet else { return Ok(()) };
        let (x1, x2) = (self.scale.x(from).0, self.scale.x(to).0);
        let middle = (x1 + x2) / 2;
        let (top, bottom) = (self.axis, self.bottom - GAP / 2);
        let (left, right) = (Px(middle - 40), Px(middle + 40));
        let (tilt_left, tilt_right) = (Px(middle - 100), Px(middle - 20));
        writeln!(
            out,
            "<path fill=\"#fff\" d=\"M{left} {top}L{tilt_left} {bottom}H{tilt_right}L{right} {top}z\"/>\
             <path class=\"k\" d=\"M{left} {top}L{tilt_left} {bottom}M{right} {top}L{tilt_right} {bottom}\"/>"
        )?;
        let left_out = format!("{} drawn short", Time(to - from));
        text(out, (Px(middle), self.axis - 18), "class=\"q\" text-anchor=\"middle\"", &left_out)
    }
}

const STYLE: &str = include_str!("svg/style.xml");

/// Writes a text.
fn text(out: &mut String, (x, y): (Px, u64), attributes: &str, text: &str) -> fmt::Result {
    writeln!(out, "<text x=\"{x}\" y=\"{y}\" {attributes}>{}</text>", Xml(text))
}

/// A text in XML 1.0, which does not allow control characters.
struct Xml<'a>(&'a str);

impl fmt::Display for Xml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\n' => f.write_char('\n')?,
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                letter if letter.is_control() => f.write_char('\u{fffd}')?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::format::sample;
    use proptest::prelude::*;

    /// Parses a picture as a strict XML parser would. Returns the names and attributes of its elements.
    fn elements(text: &str) -> Vec<(String, Vec<(String, String)>)> {
        let bad = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{ffff}';
        assert!(!text.contains(bad));
        let (mut open, mut elements) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some((before, tag)) = rest.split_once('<') {
            check(before);
            let (tag, after) = tag.split_once('>').expect("a tag ends");
            rest = after;
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
                continue;
            }
            let whole = tag.strip_suffix('/');
            let mut tag = whole.unwrap_or(tag).trim_end();
            let name = tag.split(' ').next().unwrap().to_string();
            tag = &tag[name.len()..];
            let mut attributes = Vec::new();
            while let Some((key, value)) = tag.split_once("=\"") {
                let (value, after) = value.split_once('"').expect("a value ends");
                check(value);
                assert!(attributes.iter().all(|(other, _)| other != key.trim()), "{key} twice");
                attributes.push((key.trim().to_string(), value.to_string()));
                tag = after;
            }
            assert_eq!(tag.trim(), "");
            if whole.is_none() {
                open.push(name.clone());
            }
            elements.push((name, attributes));
        }
        assert!(open.is_empty() && rest.trim().is_empty());
        elements
    }

    fn check(text: &str) {
        for part in text.split('&').skip(1) {
            let entities = ["amp;", "lt;", "gt;", "quot;"];
            assert!(entities.iter().any(|entity| part.starts_with(entity)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_picture_of_anything_is_well_formed_and_within_its_frame(timeline in sample::anything()) {
            let text = Format::Svg.text(&timeline);
            let spans: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
            prop_assert_eq!(text.matches("</title></rect>").count(), spans);
            for (name, attributes) in elements(&text) {
                let number = |key: &str| {
                    let value = attributes.iter().find(|(other, _)| other == key)?;
                    value.1.parse::<f64>().ok()
                };
                if name == "rect" {
                    let right = number("x").unwrap_or(0.0) + number("width").unwrap();
                    prop_assert!(right <= WIDTH as f64);
                }
            }
        }
    }
}
