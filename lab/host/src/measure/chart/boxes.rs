//! A picture of nested boxes, with a matrix of numbers below them: that of `dayfly host topology`.

use crate::measure::chart::svg::{AROUND, Area, Colour, LEFT, Point, RIGHT, Svg};
use crate::measure::chart::{COLOURS, LIGHT, MARK};

/// The minimum width of a picture, in pixels.
const WIDTH: i32 = 900;
/// The width and height of a cell, in pixels.
const CELL: (i32, i32) = (32, 22);
/// The gap between items that are not related, in pixels.
const GAP: i32 = 10;
/// The height of a line of text, in pixels.
const LINE: i32 = 20;
/// The approximate width of a letter, in pixels.
const LETTER: i32 = 7;

/// The heading of the matrix.
const MATRIX: &str = "distances between nodes";
/// The meanings of the kinds of cells, which are numbered in this order. The legend lists only the kinds that occur.
const KINDS: [&str; 3] =
    ["CPU; CPUs that touch share a core", "isolated from the scheduler", "offline"];

/// A picture of boxes.
#[derive(Debug, Clone, Default)]
pub struct Boxes {
    /// The heading.
    pub title: String,
    /// The outer boxes.
    pub boxes: Vec<Outer>,
    /// The matrix below the boxes: the rows, each with its label, which is also the label of a column; empty for none.
    pub matrix: Vec<(String, Vec<String>)>,
}

/// An outer box.
#[derive(Debug, Clone, Default)]
pub struct Outer {
    /// The title of the box.
    pub title: String,
    /// A note after the title.
    pub note: String,
    /// The boxes inside this box.
    pub trays: Vec<Tray>,
}

/// A box inside an outer box.
#[derive(Debug, Clone, Default)]
pub struct Tray {
    /// The title of the box.
    pub title: String,
    /// The cells of the box, in groups. The cells of a group touch each other.
    pub groups: Vec<Vec<Cell>>,
}

/// The smallest box: its text, and its kind, an index into [`KINDS`].
pub type Cell = (String, usize);

/// Lays out items of these sizes from left to right, in lines of at most `width`. Returns their positions, and the size
/// of all together.
fn flow(sizes: impl Iterator<Item = (i32, i32)>, width: i32, gap: i32) -> (Vec<Area>, (i32, i32)) {
    let (mut x, mut y, mut line, mut widest) = (0_i32, 0_i32, 0, 0);
    let mut places = Vec::new();
    for (wide, high) in sizes {
        if x > 0 && x + wide > width {
            (x, y, line) = (0, y.saturating_add(line + gap), 0);
        }
        places.push(Area { x, y, width: wide, height: high });
        widest = widest.max(x + wide);
        x += wide + gap;
        line = line.max(high);
    }
    (places, (widest, y.saturating_add(line)))
}

impl Boxes {
    /// Renders the picture as SVG.
    pub fn svg(&self) -> String {
        let columns = if self.boxes.len() > 1 { 2 } else { 1 };
        let wide = (WIDTH - GAP) / columns - GAP;
        let mut places = Vec::new();
        let mut y = 2 * LINE + GAP;
        for pair in self.boxes.chunks(columns as usize) {
            let high = pair.iter().map(|outer| outer.layout(wide).1).max().unwrap_or(0);
            for (outer, column) in pair.iter().zip(0..) {
                let x = GAP + column * (wide + GAP);
                places.push((outer, Area { x, y, width: wide, height: high }));
            }
            y = y.saturating_add(high + GAP);
        }
        let legend = y;
        let matrix = legend + LINE + GAP;
        let labels = to_pixels(self.matrix.len());
        let below = (labels > 0).then(|| CELL.1.saturating_mul(labels + 1) + LINE + GAP);
        let height = matrix.saturating_add(below.unwrap_or(0));
        let width = WIDTH.max((CELL.0 + 12).saturating_mul(labels + 1) + 2 * GAP);

        let mut svg = Svg::new(width, height);
        svg.text((width / 2, LINE), AROUND, 14.5, &self.title);
        for (outer, place) in places {
            outer.draw(&mut svg, place);
        }
        self.legend(&mut svg, legend);
        if labels > 0 {
            self.matrix(&mut svg, (GAP, matrix));
        }
        svg.finished()
    }

    fn legend(&self, svg: &mut Svg, y: i32) {
        let trays = self.boxes.iter().flat_map(|outer| &outer.trays);
        let cells: Vec<&Cell> = trays.flat_map(|tray| &tray.groups).flatten().collect();
        let mut x = GAP;
        for (kind, name) in KINDS.iter().enumerate() {
            if cells.iter().any(|(_, of)| *of == kind) {
                colour(svg, Area { x, y, width: CELL.0 / 2, height: CELL.1 / 2 }, kind);
                svg.text((x + CELL.0 / 2 + 6, y + CELL.1 / 4), RIGHT, 12.0, name);
                x += CELL.0 + GAP + letters(name);
            }
        }
    }

    fn matrix(&self, svg: &mut Svg, (x, y): Point) {
        svg.text((x, y + GAP), RIGHT, 12.1, MATRIX);
        let (width, height) = (CELL.0 + 12, CELL.1);
        let place = |row: usize, column: usize| Area {
            x: x + width.saturating_mul(to_pixels(column)),
            y: y + LINE + height.saturating_mul(to_pixels(row)),
            width,
            height,
        };
        for (row, (label, numbers)) in (1..).zip(&self.matrix) {
            svg.text(middle(place(0, row)), AROUND, 12.0, label);
            svg.text(middle(place(row, 0)), AROUND, 12.0, label);
            for (column, number) in (1..).zip(numbers) {
                let place = place(row, column);
                match row == column {
                    true => colour(svg, place, 0),
                    false => framed(svg, place, "#FFFFFF", ""),
                }
                svg.text(middle(place), AROUND, 12.0, number);
            }
        }
    }
}

impl Outer {
    /// Returns the positions of the inner boxes in an outer box of this width, and the height of the outer box.
    fn layout(&self, width: i32) -> (Vec<Area>, i32) {
        let inner = width - 2 * GAP;
        let (places, (_, height)) =
            flow(self.trays.iter().map(|tray| tray.layout(inner).1), inner, GAP);
        let places = places.into_iter().map(|place| moved(place, GAP, LINE + GAP));
        (places.collect(), height.saturating_add(LINE + 2 * GAP))
    }

    fn draw(&self, svg: &mut Svg, place: Area) {
        framed(svg, place, LIGHT, " opacity=\"0.4\"");
        let line = place.y + GAP + 4;
        svg.text((place.x + GAP, line), RIGHT, 12.1, &self.title);
        svg.text((place.x + place.width - GAP, line), LEFT, 12.0, &self.note);
        for (tray, of) in self.trays.iter().zip(self.layout(place.width).0) {
            tray.draw(svg, moved(of, place.x, place.y));
        }
    }
}

impl Tray {
    /// Returns the positions of the groups of cells in a box that is at most `inner` wide, unless a single group is
    /// wider, and the size of the box.
    fn layout(&self, inner: i32) -> (Vec<Area>, (i32, i32)) {
        let size = |cells: &Vec<_>| (CELL.0.saturating_mul(to_pixels(cells.len())), CELL.1);
        let (places, (width, height)) =
            flow(self.groups.iter().map(size), inner - 2 * GAP, GAP / 2);
        let width = width.max(letters(&self.title).min(inner - 2 * GAP)) + 2 * GAP;
        let places = places.into_iter().map(|place| moved(place, GAP, LINE));
        (places.collect(), (width, height.saturating_add(LINE + GAP)))
    }

    /// Iterates over the cells and their positions, if the box is at `place`.
    fn cells(&self, place: Area) -> impl Iterator<Item = (&Cell, Area)> {
        let groups = self.groups.iter().zip(self.layout(place.width).0);
        groups.flat_map(move |(cells, group)| {
            let first = Area { width: CELL.0, ..moved(group, place.x, place.y) };
            cells.iter().zip((0..).map(move |cell| moved(first, cell * CELL.0, 0)))
        })
    }

    fn draw(&self, svg: &mut Svg, place: Area) {
        framed(svg, place, "#FFFFFF", "");
        svg.text((place.x + GAP, place.y + GAP + 1), RIGHT, 12.0, &self.title);
        for ((text, kind), place) in self.cells(place) {
            colour(svg, place, *kind);
            svg.text(middle(place), AROUND, 12.0, text);
        }
    }
}

fn moved(area: Area, x: i32, y: i32) -> Area {
    Area { x: area.x.saturating_add(x), y: area.y.saturating_add(y), ..area }
}

fn middle(area: Area) -> Point {
    (area.x + area.width / 2, area.y + area.height / 2)
}

/// Fills an area and draws a frame around it.
fn framed(svg: &mut Svg, area: Area, fill: Colour, opacity: &str) {
    svg.fill(area, fill, opacity);
    svg.edge(area, MARK);
}

/// Draws a cell of this kind. Its colour is light enough that text on it is readable.
fn colour(svg: &mut Svg, cell: Area, kind: usize) {
    match kind {
        0 => framed(svg, cell, COLOURS[5], " opacity=\"0.45\""),
        1 => framed(svg, cell, COLOURS[4], " opacity=\"0.6\""),
        _ => framed(svg, cell, LIGHT, ""),
    }
}

fn letters(text: &str) -> i32 {
    to_pixels(text.chars().count()).saturating_mul(LETTER)
}

fn to_pixels(count: usize) -> i32 {
    // A larger count would not fit into any picture.
    i32::try_from(count).unwrap_or(i32::MAX).min(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tray(title: &str, cores: usize, threads: usize) -> Tray {
        let cell = |core, thread| (format!("c{}", core + thread * cores), thread % 2);
        let core = |core: usize| (0..threads).map(|thread| cell(core, thread)).collect();
        Tray { title: title.to_owned(), groups: (0..cores).map(core).collect() }
    }

    #[test]
    fn everything_is_in_the_picture() {
        let outer = |title: &str| Outer {
            title: title.to_owned(),
            note: "32 <GB>".to_owned(),
            trays: vec![tray("cache a", 24, 2), tray("cache b", 8, 1)],
        };
        let row = |label: &str| (label.to_owned(), ["10", "21", "31"].map(str::to_owned).to_vec());
        let boxes = Boxes {
            title: "a & b".to_owned(),
            boxes: vec![outer("node 0"), outer("node 1"), outer("node 2")],
            matrix: ["0", "1", "2"].map(row).to_vec(),
        };
        let text = boxes.svg();
        for word in
            ["a &amp; b", "32 &lt;GB&gt;", "node 2", "cache b", "c47", "isolated from", "31"]
        {
            assert!(text.contains(word), "{word}");
        }
        assert!(!text.contains("offline"));
    }

    #[test]
    fn nothing_leaves_its_box() {
        let inside = |one: Area, other: Area| {
            one.x >= other.x
                && one.y >= other.y
                && one.x + one.width <= other.x + other.width
                && one.y + one.height <= other.y + other.height
        };
        let trays = vec![tray("a", 100, 2), tray("a longer title", 10, 2), tray("b", 3, 1)];
        let outer = Outer { trays, ..Outer::default() };
        for width in 200..900 {
            let (places, height) = outer.layout(width);
            let all = Area { x: 0, y: 0, width, height };
            for (tray, place) in outer.trays.iter().zip(places) {
                assert!(inside(place, all), "{width}: {place:?}");
                assert!(
                    tray.cells(place).all(|(_, cell)| inside(cell, place)),
                    "{width}: {place:?}"
                );
            }
        }
    }
}
