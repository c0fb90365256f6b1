//! Commands whose caller allows few open files or small files: they work, or fail with a message, and never take a
//! container that they cannot look at for a stopped one.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer};
use dayfly_tests::leak;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::user::{self, User};
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(few_descriptors).unlike_runc(),
    case!(few_descriptors_to_remove_with).unlike_runc(),
    case!(few_processes).needs(user::can_be).unlike_runc(),
    case!(small_files).unlike_runc(),
    case!(small_files_of_tmpcopyup).unlike_runc(),
    case!(small_files_of_an_import).unlike_runc().needs(image::needed),
];

/// Runs the runtime with a limit, in the words of prlimit(1).
fn limited(bed: &Bed, limit: &str, words: &[&str]) -> Outcome {
    let (root, runtime) = (bed.root(), bed.runtime().to_str().expect("path").to_owned());
    let own = [limit, &runtime, "--root", root.to_str().expect("path")];
    bed.program("prlimit", &[&own[..], words].concat()).run()
}

/// Without its limit, each command would succeed or fail in another way.
fn few_descriptors(bed: &Bed) {
    // Otherwise each container would need the right to raise its limit again.
    let bundle = || bed.bundle().set("/process/rlimits", json!([]));
    let c = bundle().sh("sleep 1000").make();
    c.run_with(&["--detach"]).ok();
    let other = bundle().args(&["true"]).make();
    let bundle = other.bundle.to_str().expect("path");
    let mut complete = 0;
    for count in (3..24).chain((24..=64).step_by(8)) {
        let limit = format!("--nofile={count}");
        let state = limited(bed, &limit, &["state", &c.id]);
        assert!(state.code() != 0 || state.stdout.contains(r#""running""#), "{count}: {state}");
        let delete = limited(bed, &limit, &["delete", &c.id]);
        assert_ne!(delete.code(), 0, "{count}: {delete}");
        assert_eq!(c.status(), "running", "{count}: {delete}");
        let run = limited(bed, &limit, &["run", "--bundle", bundle, &other.id]);
        let exec = limited(bed, &limit, &["exec", &c.id, "true"]);
        complete += u32::from(state.code() == 0 && run.code() == 0 && exec.code() == 0);
        for outcome in [&state, &delete, &run, &exec] {
            let is_told = outcome.code() == 0 || !outcome.stderr.is_empty();
            assert!(is_told, "{count}: fails without a word: {outcome}");
        }
        other.delete_force().ok();
        assert!(
            leak::find(bed.view, &bed.dir, std::slice::from_ref(&other.id)).is_empty(),
            "{count}"
        );
    }
    assert!(complete > 0, "64 descriptors are enough");
    c.delete_force().ok();
}

/// A tree of 100 directories, one in another, is removed with ten descriptors.
fn few_descriptors_to_remove_with(bed: &Bed) {
    let c = bed.bundle().sh("sleep 1000").make();
    c.run_with(&["--detach"]).ok();
    let deep = (0..100).fold(bed.root().join(&c.id), |path, _| path.join("d"));
    fs::create_dir_all(&deep).expect("mkdir");
    fs::write(deep.join("file"), "").expect("write");
    let deleted = limited(bed, "--nofile=20", &["delete", "--force", &c.id]);
    assert_eq!(deleted.code(), 0, "{deleted}");
    assert!(!c.exists());
}

/// The kernel counts the processes of all containers of a user, but not those of root.
fn few_processes(bed: &Bed) {
    let user = User::new(bed);
    let mut codes = Vec::new();
    for count in 0..8 {
        let c = user.single().args(&["true"]).make();
        let limit = format!("prlimit --nproc={count}");
        let outcome = c.bundle_call("run", &[]).env("WITH", &limit).run();
        let is_told = outcome.stderr.contains("resource temporarily unavailable");
        assert!(outcome.code() == 0 || is_told, "{count}: {outcome}");
        c.assert_gone("a run");
        codes.push(outcome.code());
    }
    assert!(codes[0] != 0 && codes[7] == 0, "{codes:?}");
}

/// A record that cannot be written whole leaves nothing, and its error says why. The default action of SIGXFSZ would
/// kill the command.
fn small_files(bed: &Bed) {
    let c = bed.bundle().args(&["true"]).make();
    let bundle = c.bundle.to_str().expect("path");
    for verb in [&["run"][..], &["run", "--detach"], &["create"]] {
        // The limit applies to the file that takes the standard error of a case, too.
        let failed = limited(bed, "--fsize=300", &[verb, &["--bundle", bundle, &c.id]].concat());
        assert_eq!(failed.code(), 1, "{failed}");
        assert!(failed.stderr.contains("write record: file too large"), "{failed}");
        c.assert_gone("a failed start");
    }
    c.run().ok();
    let c = bed.bundle().sh("sleep 1000").make();
    c.run_with(&["--detach"]).ok();
    limited(bed, "--fsize=0", &["exec", &c.id, "true"]).ok();
    limited(bed, "--fsize=0", &["delete", "--force", &c.id]).ok();
    c.assert_gone("delete");
}

/// The copies that `tmpcopyup` makes are larger than the limit. The program gets the signal's default action.
fn small_files_of_tmpcopyup(bed: &Bed) {
    let c = bed.bundle().mount("tmpfs", "tmpfs", "/bin", &["tmpcopyup"]).sh(SIGNALS).make();
    let bundle = c.bundle.to_str().expect("path");
    let failed = limited(bed, "--fsize=100000", &["run", "--bundle", bundle, &c.id]);
    assert_eq!(failed.code(), 1, "{failed}");
    assert!(failed.stderr.contains("sendfile: file too large"), "{failed}");
    c.assert_gone("run");
    let ran = limited(bed, "--fsize=100000000", &["run", "--bundle", bundle, &c.id]).ok();
    let ignored = ran.stdout.split_whitespace().last().expect("a mask");
    assert_eq!(u64::from_str_radix(ignored, 16).expect("a mask") >> 24 & 1, 0, "SIGXFSZ");
}

const SIGNALS: &str = "grep SigIgn /proc/self/status";

fn small_files_of_an_import(bed: &Bed) {
    let layer = Layer::new().file("large", 0o644, &[7; 100_000]);
    let layout = image::layout(bed, "layout", vec![layer]);
    let (program, store) = (image::program(), image::store(bed));
    let (program, store) = (program.to_str().expect("path"), store.to_str().expect("path"));
    let import = |limit: &str| {
        let source = layout.dir.to_str().expect("path");
        let words = [limit, program, "image", "import", source, "--name", "test"];
        bed.program("prlimit", &words).env("DAYFLY_STORE", store).run()
    };
    let failed = import("--fsize=50000");
    assert_eq!(failed.code(), 1, "{failed}");
    assert!(failed.stderr.contains("file too large"), "{failed}");
    for part in ["images", "layers", "records", "work", "refs"] {
        let left = fs::read_dir(image::store(bed).join(part)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{part}");
    }
    import("--fsize=1000000").ok();
}
