//! Names of images, and their removal.

use super::{V2, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const CASES: &[Case] = &[
    case!(names_and_their_removal).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(many_remove_the_same_name).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(one_that_is_gone_when_it_is_removed).on(V2).when(uses_every_fast_path).needs(strace),
    case!(a_containers_image_is_kept).on(V2).when(uses_every_fast_path).needs(image::needed),
];

/// A program by which single system calls fail.
fn strace() -> Result<(), String> {
    image::needed()?;
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    match works {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("no strace: apt-get install strace ({error})")),
    }
}

fn names_and_their_removal(bed: &Bed) {
    let base = || Layer::new().file("base", 0o644, b"base");
    let one = image::layout(bed, "one", vec![base(), Layer::new().file("one", 0o644, b"1")]);
    let two = image::layout(bed, "two", vec![base(), Layer::new().file("two", 0o644, b"2")]);
    let import = |layout: &Layout, name: &str| {
        let source = layout.dir.to_str().expect("path");
        image::call(bed, &["import", source, "--name", name]).run().ok()
    };
    assert!(import(&one, "localhost/team/one:1.0").stdout.contains("2 layers, 2 unpacked"));
    assert!(import(&two, "two").stdout.contains("2 layers, 1 unpacked"));
    assert!(import(&two, "also").stdout.contains("0 unpacked"));
    assert!(image::store(bed).join("refs/localhost%2Fteam%2Fone:1.0").is_symlink());
    let listed = image::call(bed, &["ls", "--format", "json"]).run().ok().stdout;
    let listed: Value = serde_json::from_str(&listed).expect("json");
    let names: Vec<&Value> =
        listed.as_array().expect("list").iter().map(|image| &image["names"]).collect();
    assert_eq!(names, [&json!(["also:latest", "two:latest"]), &json!(["localhost/team/one:1.0"])]);
    let kept = |count: usize| {
        let layers = fs::read_dir(image::store(bed).join("layers")).expect("layers").count();
        assert_eq!(layers, count);
    };
    kept(3);
    assert!(image::call(bed, &["rm", "two"]).run().ok().stdout.contains("0 images and 0 layers"));
    kept(3);
    assert!(
        image::call(bed, &["rm", "localhost/team/one:1.0"])
            .run()
            .ok()
            .stdout
            .contains("1 images and 1 layers")
    );
    kept(2);
    let digest = listed[0]["digest"].as_str().expect("digest");
    image::call(bed, &["inspect", &digest[..20]]).run().ok();
    image::call(bed, &["rm", digest]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
    // All of what is asked for, or nothing.
    import(&one, "one");
    image::call(bed, &["rm", "one", "two"]).run().exits(1);
    kept(2);
    let listed = image::call(bed, &["rm", "one", "one"]).run().ok().stdout;
    assert_eq!(listed.matches("removed one:latest").count(), 1, "{listed}");
    let outcome = image::call(bed, &["rm", "two"]).run().exits(1);
    assert!(outcome.stderr.contains("no image two"), "{outcome}");
    let outcome = image::call(bed, &["import", one.dir.to_str().expect("path"), "--name", "../x"])
        .run()
        .exits(1);
    assert!(outcome.stderr.contains("no name of an image"), "{outcome}");
}

/// Whoever is slower finds the name gone: before it looks, or when it removes it. Both are no failures of the store.
fn many_remove_the_same_name(bed: &Bed) {
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let source = layout.dir.to_str().expect("path");
    for round in 0..15 {
        image::call(bed, &["import", source, "--name", "test"]).run().ok();
        let calls: Vec<_> = (0..12).map(|_| image::call(bed, &["rm", "test"]).spawn()).collect();
        let outcomes: Vec<_> =
            calls.into_iter().map(dayfly_tests::runtime::Running::wait).collect();
        let removed = outcomes.iter().filter(|one| one.stdout.contains("removed test")).count();
        assert_eq!(removed, 1, "round {round}");
        for outcome in &outcomes {
            let late = outcome.stderr.contains("no image test");
            assert!(
                late == outcome.stdout.is_empty() && (late || outcome.stderr.is_empty()),
                "round {round}: {outcome}"
            );
        }
        assert_eq!(visible(bed), Vec::<PathBuf>::new(), "round {round}");
    }
}

/// The same for certain: the name is there when it is looked at, and not when it is removed.
fn one_that_is_gone_when_it_is_removed(bed: &Bed) {
    image::import(bed, &image::layout(bed, "layout", vec![Layer::new().file("f", 0o644, b"")]));
    let store = image::store(bed);
    let (name, log) = (store.join("refs/test:latest"), bed.dir.join("strace"));
    let path = |path: &Path| path.to_str().expect("path").to_owned();
    let (name, program) = (path(&name), path(&image::program()));
    let gone = ["-e", "trace=?unlink,unlinkat", "-e", "inject=?unlink,unlinkat:error=ENOENT"];
    let all =
        [&["-f", "-o", &path(&log), "-P", &name], &gone[..], &[&program, "image", "rm", "test"]];
    let outcome =
        bed.program("strace", &all.concat()).env("DAYFLY_STORE", &path(&store)).run().ok();
    let calls = fs::read_to_string(&log).expect("strace's log");
    assert_eq!(calls.matches("(INJECTED)").count(), 1, "{calls}");
    assert!(!outcome.stderr.contains("dayfly-image:"), "{outcome}");
    assert_eq!(outcome.stdout, "0 images and 0 layers removed, 0 B freed\n");
    image::call(bed, &["rm", "test"]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
}

fn a_containers_image_is_kept(bed: &Bed) {
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let image = image::import(bed, &layout);
    let container = image::store(bed).join("containers/c1");
    fs::create_dir_all(&container).expect("make");
    symlink(
        format!("../../images/{}", image.file_name().and_then(|n| n.to_str()).expect("name")),
        container.join("image"),
    )
    .expect("link");
    image::call(bed, &["rm", "test"]).run().ok();
    image::call(bed, &["gc"]).run().ok();
    assert!(image::layers(&image)[0].join("file").exists());
    fs::remove_dir_all(&container).expect("remove");
    image::call(bed, &["gc"]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
}
