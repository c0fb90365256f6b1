//! The commands on a container that a template has forked, and the life of the template.

use super::{LIBRARY, PROGRAM, bundle, call, children, fork, lacking, other, template};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::leak::Host;
use dayfly_tests::runner::Case;
use dayfly_tests::wait;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(statuses).needs(lacking).unlike_runc(),
    case!(signals).needs(lacking).unlike_runc(),
    case!(commands).needs(lacking).unlike_runc(),
    case!(orphans_are_reaped).needs(lacking).unlike_runc(),
    case!(outlives_its_template).needs(lacking).unlike_runc(),
    case!(outlives_a_killed_program).needs(lacking).unlike_runc(),
    case!(removed_by_force).needs(lacking).unlike_runc(),
    case!(a_start_that_is_deleted_stays_away).needs(lacking).unlike_runc(),
    case!(a_template_that_ends_meanwhile_is_not_missed).needs(lacking).unlike_runc().alone(),
    case!(a_killed_start_leaves_nothing).needs(lacking).unlike_runc(),
    case!(a_hundred_at_once).needs(lacking).unlike_runc().alone(),
];

/// Returns a detached container in which a template has forked this code.
fn running<'a>(template: &Container<'a>, code: &str) -> Container<'a> {
    let c = other(template, |config: &mut Value| {
        config["process"]["args"] = json!(["/usr/bin/python3", "-B", "/app.py", code]);
    });
    c.run_with(&["--detach", "--template", &template.id]).ok();
    c
}

const SLEEP: &str = "time.sleep(1000)";

fn statuses(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    fork(&template, "").ok();
    fork(&template, "sys.exit(7)").exits(7);
    fork(&template, "os._exit(255)").exits(255);
    fork(&template, "os.kill(os.getpid(), signal.SIGKILL)").exits(137);
    fork(&template, "signal.raise_signal(signal.SIGTERM)").exits(143);
    fork(&template, "os.abort()").exits(134);
    let error = fork(&template, "raise ValueError('no')").exits(1);
    assert!(error.raw_stderr().contains("ValueError: no"), "{error}");
}

/// Signals reach the program, although the record names its stand-in.
fn signals(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    // Without a handler: Python does not wake from a sleep for a signal that arrives just before it.
    let code = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n\
        print('ready', flush=True)\nsignal.sigwait([signal.SIGTERM])\nsys.exit(5)";
    let (run, id) = call(&template, &[], code);
    let run = run.spawn();
    wait::until_true("the program", || run.stdout().contains("ready"));
    bed.call(&["kill", &id, "TERM"]).run().ok();
    run.wait().exits(5);
    let (run, _) = call(&template, &[], code);
    let run = run.spawn();
    wait::until_true("the program", || run.stdout().contains("ready"));
    run.signal(Signal::TERM);
    run.wait().exits(5);
    let c = running(&template, SLEEP);
    let program = children(c.pid());
    c.kill("KILL").ok();
    c.wait_status("stopped");
    assert!(
        program.iter().all(|pid| dayfly_tests::leak::state(*pid).is_none_or(|state| state == 'Z'))
    );
    c.delete().ok();
}

fn commands(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let c = running(&template, SLEEP);
    assert_eq!(c.status(), "running");
    assert_eq!(
        c.sh("echo $$; cat /proc/2/comm; hostname").ok().lines()[1..],
        ["python3", "dayfly-test"]
    );
    c.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.status(), "paused");
    c.id_call("resume", &[], &[]).run().ok();
    let listed = c.id_call("ps", &[], &["-o", "pid,args"]).run().ok();
    assert!(listed.stdout.contains("/app.py"), "{listed}");
    c.id_call("events", &["--stats"], &[]).run().ok();
    c.id_call("checkpoint", &["--image-path", &c.bundle.join("images").to_string_lossy()], &[])
        .run()
        .fails("whose program a template has forked, is not supported yet");
    c.delete().fails("not stopped");
    c.delete_force().ok();
    // The template goes on.
    fork(&template, "").ok();
}

fn orphans_are_reaped(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let code = "import subprocess\n\
        subprocess.run(['/bin/sh', '-c', '(sleep 0.05) & (sleep 0.05) &'])\n\
        time.sleep(1000)";
    let c = running(&template, code);
    wait::until_true("no orphan is left", || {
        let left = children(c.pid());
        left.len() == 1 && !dayfly_tests::leak::is_zombie(left[0])
    });
}

fn outlives_its_template(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let c = running(&template, SLEEP);
    let (run, _) = call(&template, &[], "time.sleep(1.5); sys.exit(9)");
    let run = run.spawn();
    let entry = |name: &str| {
        let text = bed.call(&["template", "ls", "--format", "json"]).run().ok().stdout;
        let list: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        list.into_iter().find(|entry| entry["name"] == name)
    };
    wait::until_true("two containers", || {
        entry(&template.id).is_some_and(|entry| entry["containers"] == 2)
    });
    let rest = bed.call(&["template", "rm", &template.id]).run().ok();
    assert!(rest.log().contains("2 of its containers go on"), "{rest}");
    let ended = entry(&template.id).expect("template");
    assert_eq!((&ended["serves"], &ended["containers"]), (&json!(false), &json!(2)));
    assert_eq!(c.status(), "running");
    c.sh("true").ok();
    // New containers are executed.
    let executed = fork(&template, "print(os.getpid())").ok();
    assert!(executed.log().contains("has ended"), "{executed}");
    // A forked program's status is known without its parent.
    run.wait().exits(9);
    c.delete_force().ok();
    // The reaper exits once the parents of the containers have reaped them.
    wait::until_true("the template is removed", || {
        let _ = bed.call(&["template", "rm", &template.id]).run();
        entry(&template.id).is_none()
    });
    template.assert_gone("the template");
}

fn outlives_a_killed_program(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let c = running(&template, SLEEP);
    let program = children(template.pid());
    let [program] = program[..] else { panic!("{program:?}") };
    let program = rustix::process::Pid::from_raw(program).expect("pid");
    rustix::process::kill_process(program, Signal::KILL).expect("kill");
    wait::until_true("the template has ended", || fork(&template, "").log().contains("has ended"));
    assert_eq!(c.status(), "running");
    assert_eq!(template.status(), "running", "its reaper");
    c.kill("TERM").ok();
    c.wait_status("stopped");
    template.wait_status("stopped");
    c.delete().ok();
    template.delete().ok();
    template.assert_gone("the template");
}

fn removed_by_force(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let c = running(&template, SLEEP);
    bed.call(&["template", "rm", "--force", &template.id]).run().ok();
    c.wait_status("stopped");
    c.delete().ok();
    template.assert_gone("the template");
}

/// `delete --force` of a container whose program is still being forked: it is not made again.
fn a_start_that_is_deleted_stays_away(bed: &Bed) {
    let bundle = bundle(bed, PROGRAM);
    let library = format!(
        "{LIBRARY}\n\nif _VARIABLE in os.environ:\n    _Child._begin_session = lambda self: time.sleep(3)\n"
    );
    std::fs::write(bundle.rootfs().join("dayfly_template.py"), library).expect("write library");
    let template = template(bundle);
    let (run, id) = call(&template, &[], SLEEP);
    let run = run.spawn();
    let record = bed.root().join(&id).join("record");
    wait::until_true("init", || std::fs::metadata(&record).is_ok_and(|file| file.len() > 0));
    std::thread::sleep(std::time::Duration::from_millis(500));
    bed.call(&["delete", "--force", &id]).run().ok();
    let outcome = run.wait();
    assert!(outcome.code() != 0, "{outcome}");
    assert!(!bed.root().join(&id).exists());
}

/// A start that is killed at any point leaves what `delete --force` removes, and the template goes on.
fn a_killed_start_leaves_nothing(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    for millisecond in 0..30 {
        let (run, id) = call(&template, &[], SLEEP);
        let run = run.spawn();
        std::thread::sleep(std::time::Duration::from_millis(millisecond));
        run.signal(Signal::KILL);
        let _ = run.wait();
        bed.call(&["delete", "--force", &id]).run().ok();
        assert!(!bed.root().join(&id).exists());
    }
    wait::until_true("no child is left", || children(template.pid()).len() == 1);
    fork(&template, "sys.exit(4)").exits(4);
}

fn a_hundred_at_once(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let host = Host::look();
    for round in 0..4 {
        let runs: Vec<_> = (0..25)
            .map(|number| {
                let code = format!("time.sleep(0.05); sys.exit({number})");
                call(&template, &[], &code).0.spawn()
            })
            .collect();
        for (number, run) in runs.into_iter().enumerate() {
            let outcome = run.wait();
            assert_eq!(outcome.code(), number as i32, "round {round}: {outcome}");
        }
    }
    wait::until_none("nothing is left", || host.changes());
    assert_eq!(children(template.pid()).len(), 1);
}

/// The template's reaper is killed at any moment of a start. The program runs nevertheless, or the error names the
/// template.
fn a_template_that_ends_meanwhile_is_not_missed(bed: &Bed) {
    let mut outcomes = [0; 3];
    for round in 0..30 {
        let template = template(bundle(bed, PROGRAM));
        let reaper = Pid::from_raw(template.pid()).expect("pid");
        let (run, id) = call(&template, &[], "print('done')");
        let run = run.spawn();
        std::thread::sleep(Duration::from_micros(round * 800));
        rustix::process::kill_process(reaper, Signal::KILL).expect("kill");
        let outcome = run.wait();
        let is_warned = outcome.stderr.contains("the program is executed instead");
        let number = match outcome.code() {
            0 => {
                assert!(outcome.stdout.contains("done"), "{outcome}");
                usize::from(is_warned)
            }
            // The program has begun, and has ended with the template.
            137 if !outcome.raw_stderr().contains("error") => 2,
            _ => {
                assert!(outcome.stderr.contains(&format!("template {}", template.id)), "{outcome}");
                2
            }
        };
        outcomes[number] += 1;
        Container { bed, id, bundle: template.bundle.clone() }.assert_gone("a run");
        template.delete_force().ok();
    }
    assert!(outcomes[1] > 0, "no fallback: {outcomes:?}");
}
