//! Checks that this crate does not link the crate `alloc`: without that crate, the compiler rejects allocations.

use std::fs;
use std::path::Path;

/// Returns the text of every source file below a directory.
fn sources(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![fs::read_to_string(path).unwrap()],
        })
        .collect()
}

#[test]
fn nobody_asks_for_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = sources(&root.join("src"));
    assert!(sources.len() > 20);
    for source in &sources {
        assert!(!source.contains(concat!("extern ", "crate")), "{source}");
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    let mut names: Vec<&str> = dependencies.lines().filter(|line| !line.is_empty()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "rustix.workspace = true",
            r#"sys = { package = "dayfly-sys", path = "../sys", default-features = false }"#,
        ]
    );
}
