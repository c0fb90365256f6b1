//! `run IMAGE`, without the option `--image`.

use super::{image_of, nothing_is_left, path, programs, run};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(where_no_bundle_is_meant).unlike_runc().needs(programs)];

fn where_no_bundle_is_meant(bed: &Bed) {
    image_of(bed, Vec::new());
    let bundle = bed.bundle().args(&["/bin/busybox", "echo", "of the bundle"]).make();
    let (empty, id) = (bed.dir.join("empty"), bed.id());
    fs::create_dir(&empty).expect("make directory");
    let in_dir = |dir: &Path, args: &[&str]| run(bed, args).dir(dir).run();
    for args in [&["test"][..], &["--rm", "test"], &["test", "echo", "of the image"]] {
        assert_eq!(in_dir(&empty, args).ok().stdout, "of the image\n", "{args:?}");
    }
    // What follows the image is the container's, also what looks like an option.
    let outcome =
        in_dir(&empty, &["-w/tmp", "-eA=1", "test", "sh", "-c", "echo $A $1", "-b", "-t"]);
    assert_eq!(outcome.ok().stdout, "1 -t\n");
    // An option for images says that no bundle is meant, even in one.
    let in_bundle = |args: &[&str]| in_dir(&bundle.bundle, args);
    assert_eq!(in_bundle(&["-i", "test"]).ok().stdout, "of the image\n");
    assert_eq!(in_bundle(&[&id]).ok().stdout, "of the bundle\n");
    assert_eq!(in_bundle(&["test"]).ok().stdout, "of the bundle\n");
    let refused = in_bundle(&["test", "true"]).exits(1);
    assert!(refused.stderr.contains("did you mean dayfly run --image test?"), "{refused}");
    let _ = in_dir(&empty, &["none"]).fails_once(1, "did you mean dayfly run --image none?");
    let _ = in_dir(&empty, &["-i", "none"]).fails_once(1, "no image none in ");
    let refused = in_dir(&empty, &["-b", path(&bundle.bundle), "test", "true"]).exits(1);
    assert!(refused.stderr.contains("requires exactly 1 argument(s)"), "{refused}");
    nothing_is_left(bed);
}
