//! Containers from the layers of an image in a store.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use std::fs;
use std::os::unix::fs::symlink;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(runs).unlike_runc(), case!(with_another_command).unlike_runc()];

/// Adds an image to the store, in the same form as an import does.
fn image(bed: &Bed, layers: &Layers, reference: &str) {
    let digest = "0".repeat(64);
    let directory = layers.store.join("images").join(&digest);
    fs::create_dir_all(&directory).expect("mkdir");
    let mut bundle = bed.bundle().args(&["/bin/echo", "entry", "command"]);
    bundle.config["annotations"]["run.dayfly.seccomp"] = "none".into();
    fs::write(directory.join("config.json"), bundle.config.to_string()).expect("write");
    fs::copy(&layers.list, directory.join("layers")).expect("copy");
    fs::write(directory.join("entrypoint"), "2\n").expect("write");
    fs::create_dir(layers.store.join("refs")).expect("mkdir");
    let name = reference.replace('/', "%2F");
    symlink(format!("../images/{digest}"), layers.store.join("refs").join(name)).expect("symlink");
}

fn run_image(bed: &Bed, layers: &Layers, args: &[&str]) -> Call {
    let store = layers.store.to_string_lossy();
    let all: Vec<&str> = ["run", "--store", &store].iter().chain(args).copied().collect();
    bed.call(&all)
        .env("DAYFLY_IDS", &layers.leases.to_string_lossy())
        .env("DAYFLY_SUBUID", "/dev/null")
        .env("DAYFLY_SUBGID", "/dev/null")
}

fn runs(bed: &Bed) {
    let layers = Layers::new(bed, 4);
    image(bed, &layers, "web/app:latest");
    for reference in ["web/app", "web/app:latest", &format!("sha256:{}", "0".repeat(64))] {
        for userns in ["host", "auto"] {
            let outcome = run_image(bed, &layers, &["--image", reference, "--userns", userns]);
            assert_eq!(outcome.run().ok().stdout, "entry command\n");
        }
    }
    assert_eq!(layers.left(), Vec::<String>::new());
    let missing = run_image(bed, &layers, &["--image", "web/app:2"]).run();
    missing.fails("no image web/app:2 in");
    assert_eq!(fs::read_dir(bed.root()).expect("state").count(), 0);
}

fn with_another_command(bed: &Bed) {
    let layers = Layers::new(bed, 4);
    image(bed, &layers, "app:latest");
    let outcome =
        run_image(bed, &layers, &["--image", "app", "x", "-n", "--bundle", "y"]).run().ok();
    assert_eq!(outcome.stdout, "entry x -n --bundle y\n", "all that follows is the command's");
    fs::write(layers.store.join("images").join("0".repeat(64)).join("entrypoint"), "0\n")
        .expect("write");
    let script = "echo $A; id -u; id -g; pwd; hostname; touch /x";
    let id = bed.id();
    let flags = [
        "--image",
        "app",
        "--name",
        &id,
        "-e",
        "A=b c",
        "--user",
        "7:8",
        "--cwd",
        "/tmp",
        "--hostname",
        "web",
        "--read-only",
        "/bin/sh",
        "-c",
        script,
    ];
    let outcome = run_image(bed, &layers, &flags).run().exits(1);
    assert_eq!(outcome.stdout, "b c\n7\n8\n/tmp\nweb\n");
    assert!(outcome.stderr.contains("Read-only file system"), "{outcome}");
}
