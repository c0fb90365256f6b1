//! Files by which a container could keep its own remains from being removed. There is no defence to switch off: no name
//! has a meaning when a tree is removed.

use crate::run_image::{background, delete, ends, image_of, nothing_is_left, path, programs, run};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, image};
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(names_that_the_container_chooses).unlike_runc().needs(programs)];

/// Earlier versions moved directories of a great depth to one with this name, and neither removed nor expected files
/// of this name.
fn names_that_the_container_chooses(bed: &Bed) {
    image_of(bed, vec![]);
    let deep = "i=0; while [ $i -lt 70 ]; do mkdir d; cd d; i=$((i+1)); done";
    let scripts = [
        "echo >/.dayfly-deeper".to_owned(),
        "mkdir /srv/a; echo >/srv/a/.dayfly-deeper".to_owned(),
        "ln -s /etc /.dayfly-deeper".to_owned(),
        format!("mkdir -p /.dayfly-deeper/0/x; cd /srv; {deep}"),
        format!(
            "cd /srv; {deep}; echo >.dayfly-deeper; mkdir /.dayfly-deeper; cd /.dayfly-deeper; {deep}"
        ),
    ];
    for script in &scripts {
        for mode in [&[][..], &["--rootfs-mode", "copy"], &["--userns", "auto"]] {
            let id = bed.id();
            let words = ["--name", &id, "--image", "test", "sh", "-c", script];
            run(bed, &[mode, &words].concat()).run().ok();
            nothing_is_left(bed);
            let words = ["-d", "--name", &id, "--image", "test", "sh", "-c", script];
            run(bed, &[mode, &words].concat()).run().ok();
            ends(bed, &id);
            delete(bed, &id);
        }
    }
    // Files in the state directory that dayfly has not made.
    let id = background(bed, &[], "sleep 1000");
    fs::write(bed.root().join(&id).join(".dayfly-deeper"), "").expect("write");
    delete(bed, &id);
    // A layer that replaces such directories.
    let below = image::Layer::new().dir("x/", 0o755).file("x/.dayfly-deeper", 0o644, b"");
    let above = image::Layer::new().symlink("x", "/etc");
    let store = image::store(bed);
    let layout = image::Layout::new(bed.dir.join("replacing"));
    let layers = [below, above].map(|layer| (layer, image::Packing::Plain));
    let process = json!({ "Cmd": ["/bin/true"] });
    layout.index(&[layout.image(&layers, &process)]);
    image::call(bed, &["import", path(&layout.dir), "--name", "replacing"]).run().ok();
    image::call(bed, &["rm", "replacing", "test"]).run().ok();
    image::call(bed, &["gc"]).run().ok();
    for part in ["layers", "work"] {
        assert_eq!(fs::read_dir(store.join(part)).map_or(0, Iterator::count), 0, "{part}");
    }
}
