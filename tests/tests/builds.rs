//! Features of test builds: defences that can be disabled and faults that can be injected. The runtime under test has
//! none of these features. A test build has them, and reports this wherever it can.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::{Case, runtime_path};
use dayfly_tests::runtime::FOR_TESTS;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(released_has_no_switches).needs(other_than_the_test_build),
    case!(test_build_has_them_and_says_so).undefended(""),
    case!(make_passes_the_commit).needs(git_and_make),
    case!(an_init_that_allocates_is_caught).undefended("").needs(shared_memory),
];

/// Texts that only test builds contain: the variables that they read, and a part of their warning.
const SWITCHES: [&str; 4] =
    ["DAYFLY_UNDEFENDED", "DAYFLY_FAULT", "DAYFLY_PAUSE", "built for tests"];

/// Checks that the runtime under test is not the test build, as it may be for `faults`.
fn other_than_the_test_build() -> Result<(), String> {
    let test_build = std::env::var_os("DAYFLY_UNDEFENDED_BUILD");
    let under_test = fs::canonicalize(runtime_path()).ok();
    match test_build.and_then(|path| fs::canonicalize(path).ok()) {
        path if path.is_some() && path == under_test => {
            Err("the runtime under test is the test build (DAYFLY_UNDEFENDED_BUILD)".to_owned())
        }
        _ => Ok(()),
    }
}

fn git_and_make() -> Result<(), String> {
    for name in ["git", "make"] {
        if Command::new(name).arg("--version").stdout(Stdio::null()).status().is_err() {
            return Err(format!("no {name}"));
        }
    }
    Ok(())
}

fn shared_memory() -> Result<(), String> {
    let without = std::env::var("DAYFLY_WITHOUT").unwrap_or_default();
    match without.contains("shared-memory") {
        true => Err("DAYFLY_WITHOUT says shared-memory".to_owned()),
        false => Ok(()),
    }
}

/// Returns those of [`SWITCHES`] that a program's bytes contain.
fn found_in(program: &Path) -> Vec<&'static str> {
    let bytes = fs::read(program).expect("program");
    let is_there = |text: &&str| bytes.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    SWITCHES.into_iter().filter(is_there).collect()
}

fn test_build_annotation(bed: &Bed) -> Value {
    let features: Value =
        serde_json::from_str(&bed.call(&["features"]).run().ok().stdout).expect("JSON");
    features["annotations"]["org.dayfly.built-for-tests"].clone()
}

fn released_has_no_switches(bed: &Bed) {
    fs::create_dir(bed.root()).expect("state root");
    assert_eq!(found_in(bed.runtime()), [""; 0]);
    let version = bed.call(&["--version"]).run().ok();
    assert!(!version.stdout.contains("for tests"), "{version}");
    assert_eq!(version.raw_stderr(), "");
    assert_eq!(test_build_annotation(bed), Value::Null);
    // The test build's environment variables have no effect either.
    let listed = bed.call(&["list"]).env("DAYFLY_UNDEFENDED", "bogus").env("DAYFLY_FAULT", "bogus");
    let listed = listed.env("DAYFLY_PAUSE", "bogus").run().ok();
    assert_eq!((listed.raw_stderr(), listed.log()), (String::new(), String::new()));
}

fn test_build_has_them_and_says_so(bed: &Bed) {
    fs::create_dir(bed.root()).expect("state root");
    assert_eq!(found_in(bed.runtime()), SWITCHES);
    let version = bed.call(&["--version"]).run().ok();
    let said = version.lines().contains(&"built for tests: fault injection, disabled defences");
    assert!(said, "{version}");
    assert_eq!(version.raw_stderr(), FOR_TESTS);
    assert_eq!(test_build_annotation(bed), "fault injection, disabled defences");
    let listed = bed.call(&["list"]).run().ok();
    assert_eq!(listed.raw_stderr(), FOR_TESTS);
    let record: Value = serde_json::from_str(&listed.log()).expect("one record");
    assert_eq!(record["level"], "warning");
    assert_eq!(FOR_TESTS, format!("warning: {}\n", record["msg"].as_str().expect("text")));
    for variable in ["DAYFLY_UNDEFENDED", "DAYFLY_FAULT"] {
        bed.call(&["list"]).env(variable, "bogus").run().fails("\"bogus\" is no");
    }
}

/// `make build` passes the commit of a checkout to the compiler, with the suffix `-dirty` if the programs' files have
/// changes or there are files that Git does not know. A source archive contains the commit in a file. A commit that the
/// caller sets is passed unchanged.
fn make_passes_the_commit(bed: &Bed) {
    let dir = bed.dir.join("checkout");
    fs::create_dir_all(dir.join("runtime")).expect("directory");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::create_dir(dir.join("scripts")).expect("directory");
    for file in ["Makefile", "scripts/settle"] {
        fs::copy(top.join(file), dir.join(file)).expect("a file of the checkout");
    }
    fs::write(dir.join("runtime/main.rs"), "").expect("file");
    let run = |command: &mut Command| {
        let output = command.current_dir(&dir).env_remove("MAKEFLAGS").output().expect("execute");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
        run(Command::new("git").args(identity).args(args))
    };
    let make = |set: Option<&str>| {
        let mut command = Command::new("make");
        // In its own target directory, make finds no program to settle.
        command.env_remove("CARGO_TARGET_DIR");
        command.args(["-s", "build-runtime", "CARGO=echo \"$$DAYFLY_COMMIT\" #"]);
        match set {
            Some(commit) => command.env("DAYFLY_COMMIT", commit),
            None => command.env_remove("DAYFLY_COMMIT"),
        };
        run(&mut command)
    };

    assert_eq!(make(None), "", "neither a checkout nor an archive");
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "one"]);
    let commit = git(&["rev-parse", "HEAD"]);
    assert_eq!(make(None), commit);
    fs::write(dir.join("notes.md"), "not compiled").expect("file");
    assert_eq!(make(None), commit);
    fs::write(dir.join("runtime/module.rs"), "").expect("file");
    assert_eq!(make(None), format!("{commit}-dirty"), "a file that Git does not know");
    fs::write(dir.join(".gitignore"), "module.rs\n").expect("file");
    assert_eq!(make(None), commit, "an ignored file");
    fs::write(dir.join("runtime/main.rs"), "fn main() {}").expect("file");
    assert_eq!(make(None), format!("{commit}-dirty"));
    assert_eq!((make(Some("")), make(Some("mine"))), (String::new(), "mine".to_owned()));
    fs::write(dir.join(".commit.mk"), "export DAYFLY_COMMIT = archived\n").expect("file");
    assert_eq!(make(None), "archived");
}

/// An init that shares its parent's memory must not allocate; test builds check this. Only this container violates that
/// rule: all others of the suite obey it, including those of `faults`, which cover each kind of step.
fn an_init_that_allocates_is_caught(bed: &Bed) {
    let c = bed.bundle().sh("true").make();
    let run =
        |place: &str| c.bundle_call("run", &[]).env("DAYFLY_FAULT", &format!("{place}:1:allocate"));
    run("parent").run().ok();
    run("init").env("DAYFLY_WITHOUT", "shared-memory").run().ok();
    let caught = run("init").run();
    assert!(caught.code() != 0, "{caught}");
    let message = "dayfly: bug, please report: allocation in memory shared with its maker";
    assert!(caught.stderr.contains(message), "{caught}");
}
