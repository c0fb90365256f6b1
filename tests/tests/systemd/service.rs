//! The systemd service of docs/how-to.md.

use super::{V2, left_in_slice, show, systemd};
use crate::run_image::{image_of, programs};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, image, wait};
use std::fs;
use std::process::Command;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(of_the_page).needs(ready).on(V2).unlike_runc()];

fn ready() -> Result<(), String> {
    systemd()?;
    programs()
}

fn systemctl(args: &[&str]) {
    let output = Command::new("systemctl").args(args).output().expect("systemctl");
    assert!(output.status.success(), "{args:?}: {output:?}");
}

/// The page's unit runs, stops without a failure, and leaves nothing.
fn of_the_page(bed: &Bed) {
    image_of(bed, Vec::new());
    let id = bed.id();
    let page = include_str!("../../../docs/how-to.md");
    let unit = page.split_once("```ini\n").and_then(|(_, rest)| rest.split_once("```"));
    let dayfly = format!("{} --root {}", bed.runtime().display(), bed.root().display());
    let program = "test sh -c \"trap 'exit 0' TERM; echo begun; sleep 1000 & wait\"";
    let store = format!("[Service]\nEnvironment=DAYFLY_STORE={}\n", image::store(bed).display());
    let unit = unit.expect("a unit").0.replace("[Service]\n", &store);
    let unit = unit
        .replace("/usr/bin/dayfly", &dayfly)
        .replace("--image web", &format!("--image {program}"));
    let [before, after] = [" web", &format!(" {id}")];
    let file = format!("/run/systemd/system/{id}.service");
    fs::write(&file, unit.replace(before, after)).expect("write unit");
    systemctl(&["daemon-reload"]);
    systemctl(&["start", &id]);
    let container = format!("dayfly-{id}.scope");
    wait::until_true("the scope of the container", || show(&container, "ActiveState") == "active");
    systemctl(&["stop", &id]);
    assert_eq!([show(&id, "ActiveState"), show(&id, "Result")], ["inactive", "success"]);
    fs::remove_file(&file).expect("remove unit");
    systemctl(&["daemon-reload"]);
    wait::until_none("the end of the scope", || left_in_slice(&container));
    assert_eq!(bed.call(&["list", "--quiet"]).run().ok().stdout, "");
}
