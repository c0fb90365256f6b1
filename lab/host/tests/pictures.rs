//! The form of pictures' files.

use dayfly_host::measure::chart::{Flame, Picture, draw};

#[test]
fn dark_pages_get_dark_pictures_and_neighbours_are_one_element() {
    let stack = |function: &str| (vec!["run".to_owned(), function.to_owned()], 1);
    let classes = vec![("b & c".to_owned(), vec!["b".to_owned()])];
    let mut stacks: Vec<_> = (0..600).map(|at| stack(&format!("a{at:03}"))).collect();
    stacks.push(stack("b"));
    let picture = draw(&[Picture::Flame(Flame { title: String::new(), stacks, classes })]);
    let lines: Vec<&str> = picture.lines().collect();
    assert!(lines[1].starts_with("<style>") && lines[1].contains("prefers-color-scheme:dark"));
    assert!(picture.contains(">b &amp; c</text>"), "{picture}");
    // The functions are too narrow for their names, so there is a path for each colour.
    let paths = lines.iter().filter(|line| line.starts_with("<path opacity=\"0.75\" fill="));
    let functions: Vec<usize> = paths.map(|line| line.matches('M').count()).collect();
    assert_eq!(functions, [1, 600, 1], "{picture}");
}
