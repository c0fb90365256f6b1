//! Programs of tasks that a template has forked.

use super::{Task, is_missing};
use crate::templates::{PROGRAM, bundle, lacking, other};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{NAMESPACE, Pipes};
use proto::messages::process::status;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(forked).needs(lacking).unlike_runc()];

/// The template is in the state root of the task's namespace. The shim neither knows nor sees a difference.
fn forked(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let root = bed.root().join(NAMESPACE).to_string_lossy().into_owned();
    let template = bundle(bed, PROGRAM).make();
    let dir = template.bundle.to_string_lossy().into_owned();
    let of_root = |args: &[&str]| bed.call_bare(&[&["--root", &root], args].concat()).run();
    let flags = ["--for", "engine=shim", "--bundle", &dir];
    of_root(&[&["template", "create"], &flags[..], &[&template.id]].concat()).ok();
    let made = |code: &str| {
        other(&template, |config| {
            config["annotations"] = json!({ "run.dayfly.template": template.id, "engine": "shim" });
            config["process"]["args"] = json!(["/usr/bin/python3", "-B", "/app.py", code]);
        })
    };
    let container = made("print(os.getpid()); sys.exit(6)");
    let pipes = Pipes::new(&container, "init");
    let output = pipes.reader("stdout");
    let task = Task::started(container, Some(&pipes));
    assert_eq!(task.wait(""), 6);
    assert_eq!(output.join().expect("stdout"), b"2\n");
    task.finish();

    let task = Task::started(made("time.sleep(1000)"), None);
    task.exec("e", "exit 3", None);
    task.start("e");
    assert_eq!(task.wait("e"), 3);
    assert_eq!(task.delete("e").exit_status, 3);
    assert_eq!(task.state().status, status::RUNNING);
    task.kill(15);
    assert_eq!((task.wait(""), task.state().status), (143, status::STOPPED));
    task.finish();
    of_root(&["template", "rm", "--force", &template.id]).ok();
}
