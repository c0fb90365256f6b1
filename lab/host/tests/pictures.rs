//! The form of pictures' files.

use dayfly_host::measure::chart::finished;

/// What the drawing library writes.
const DRAWN: &str = "<svg width=\"9\" xmlns=\"http://www.w3.org/2000/svg\">
<rect x=\"0\" y=\"0\" width=\"9\" height=\"9\" opacity=\"1\" fill=\"#FFFFFF\" stroke=\"none\"/>
<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" opacity=\"0.75\" fill=\"#0072B2\" stroke=\"none\"/>
<rect x=\"4\" y=\"2\" width=\"3\" height=\"4\" opacity=\"0.75\" fill=\"#D55E00\" stroke=\"none\"/>
<rect x=\"7\" y=\"2\" width=\"1\" height=\"4\" opacity=\"0.75\" fill=\"#0072B2\" stroke=\"none\"/>
<text x=\"5\" y=\"6\" font-family=\"sans-serif\" font-size=\"9.67741935483871\" opacity=\"1\" fill=\"#000000\">
a &lt;b&gt;
</text>
</svg>
";

#[test]
fn dark_pages_get_dark_pictures_and_neighbours_are_one_element() {
    let picture = finished(DRAWN);
    let lines: Vec<&str> = picture.lines().collect();
    assert!(lines[1].starts_with("<style>") && lines[1].contains("prefers-color-scheme:dark"));
    let rest = [
        "<rect x=\"0\" y=\"0\" width=\"9\" height=\"9\" fill=\"#FFFFFF\"/>",
        "<path opacity=\"0.75\" fill=\"#0072B2\" d=\"M1 2h3v4h-3zM7 2h1v4h-1z\"/>",
        "<path opacity=\"0.75\" fill=\"#D55E00\" d=\"M4 2h3v4h-3z\"/>",
        "<text x=\"5\" y=\"6\" font-size=\"12\">a &lt;b&gt;</text>",
        "</svg>",
    ];
    assert_eq!(lines[2..], rest);
    assert_eq!(finished(&picture), picture);
}
