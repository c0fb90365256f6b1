//! Checks the man pages with the programs that format them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// All pages, in a directory that is removed on drop.
struct Pages(PathBuf);

impl Pages {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("dayfly-{name}-{}", std::process::id()));
        let status = Command::new(env!("CARGO_BIN_EXE_dayfly-docgen")).arg(&directory).status();
        assert!(status.unwrap().success());
        Self(directory)
    }

    fn all(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("man")).unwrap();
        let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        pages.sort();
        assert!(pages.len() > 50, "{} pages", pages.len());
        pages
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a program's output for the pages. If the program is missing, prints this reason and
/// returns an empty string.
fn said(program: &str, arguments: &[&str], pages: &[PathBuf]) -> String {
    let run = Command::new(program).args(arguments).args(pages).stdin(Stdio::null()).output();
    match run {
        Ok(output) => {
            let texts = [output.stdout, output.stderr];
            texts.map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
        }
        Err(error) => {
            // Print macros are not used, because the test harness captures their output.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {program}: {error}: scripts/install-deps test"
            );
            String::new()
        }
    }
}

#[test]
fn mandoc_has_nothing_to_warn_of() {
    let pages = Pages::new("mandoc");
    assert_eq!(said("mandoc", &["-T", "lint", "-W", "warning"], &pages.all()), "");
}

#[test]
fn groff_has_nothing_to_warn_of() {
    let pages = Pages::new("groff");
    for page in pages.all() {
        assert_eq!(said("groff", &["-man", "-ww", "-z", "-Tutf8", "-rLL=80n"], &[page]), "");
    }
}

#[test]
fn what_pages_refer_to_is_there() {
    let pages = Pages::new("references");
    let all = pages.all();
    for page in &all {
        let text = fs::read_to_string(page).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix(".BR dayfly"));
        for name in names {
            let name = format!("dayfly{}", name.split(' ').next().unwrap().replace("\\-", "-"));
            let target = page.with_file_name(format!("{name}.8"));
            assert!(Path::exists(&target), "{}: {name}(8)", page.display());
        }
    }
}
