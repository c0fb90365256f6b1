use std::thread::JoinHandle;

use super::*;
use crate::systemd::dbus::fake::{self, Asked, SHORT, returns, signals, within_bounds};
use proptest::prelude::*;

const JOB: &str = "/org/freedesktop/systemd1/job/7";

fn unit() -> Unit {
    Unit::parse(Some("a.slice:p:x"), "x", Instance::System).unwrap()
}

/// Returns a manager on a fake bus. `answer` handles all calls except Hello and AddMatch.
fn manager(
    mut answer: impl FnMut(&Asked) -> Vec<u8> + Send + 'static,
) -> (Manager, JoinHandle<Vec<String>>) {
    let (socket, thread) = fake::serve("DATA\r\nOK 1234\r\n", move |asked| match &*asked.member {
        "Hello" => returns(asked, &[Value::text(":1.7")]),
        "AddMatch" => returns(asked, &[]),
        _ => answer(asked),
    });
    (Manager { bus: Bus::over(socket, true, SHORT).unwrap(), patience: SHORT }, thread)
}

/// Encodes an error reply of systemd.
fn fails(asked: &Asked, name: &str, text: &str) -> Vec<u8> {
    fake::fails(asked, &format!("org.freedesktop.systemd1.{name}"), text)
}

/// Encodes systemd's JobRemoved signal.
fn job_removed(job: &str, unit: &str, result: &str) -> Vec<u8> {
    let arguments =
        [Value::Uint32(7), Value::Path(job.into()), Value::text(unit), Value::text(result)];
    signals(MANAGER, "JobRemoved", &arguments)
}

fn job(asked: &Asked) -> Vec<u8> {
    returns(asked, &[Value::Path(JOB.into())])
}

/// Returns the received calls, except those to the bus itself.
fn calls(manager: Manager, thread: JoinHandle<Vec<String>>) -> Vec<String> {
    drop(manager);
    let mut calls = thread.join().unwrap();
    calls.retain(|call| call != "Hello" && call != "AddMatch");
    calls
}

#[test]
fn a_scope_is_started_when_its_job_is_done() {
    let (mut manager, thread) = manager(|asked| {
        assert_eq!(asked.text, "p-x.scope");
        let other = job_removed("/org/freedesktop/systemd1/job/6", "p-x.scope", "failed");
        [other, job(asked), job_removed(JOB, "p-x.scope", "done")].concat()
    });
    manager.start(&unit(), &[]).unwrap();
    assert_eq!(calls(manager, thread), ["StartTransientUnit"]);
}

#[test]
fn a_job_that_is_over_before_its_answer_counts() {
    let (mut manager, _thread) =
        manager(|asked| [job_removed(JOB, "p-x.scope", "done"), job(asked)].concat());
    manager.start(&unit(), &[]).unwrap();
}

#[test]
fn a_job_that_fails_is_an_error_and_is_reset() {
    let (mut manager, thread) = manager(|asked| match &*asked.member {
        "StartTransientUnit" => [job(asked), job_removed(JOB, "p-x.scope", "failed")].concat(),
        _ => returns(asked, &[]),
    });
    let error = manager.start(&unit(), &[]).unwrap_err();
    assert_eq!(error, Error::Job { unit: "p-x.scope".into(), result: "failed".into() });
    assert_eq!(calls(manager, thread), ["StartTransientUnit", "ResetFailedUnit"]);
}

#[test]
fn answers_that_are_errors_are_told() {
    let (mut manager, _thread) = manager(|asked| fails(asked, "AccessDenied", "Permission denied"));
    let error = manager.start(&unit(), &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "systemd: StartTransientUnit p-x.scope: Permission denied (org.freedesktop.systemd1.AccessDenied)"
    );
    assert!(manager.stop(&unit()).is_err());
    assert!(manager.set(&unit(), &[]).is_err());
}

#[test]
fn a_unit_that_failed_earlier_makes_way() {
    let mut tries = 0;
    let (mut manager, thread) = manager(move |asked| match &*asked.member {
        "StartTransientUnit" if tries == 0 => {
            tries += 1;
            fails(asked, "UnitExists", "Unit p-x.scope already exists.")
        }
        "StartTransientUnit" => [job(asked), job_removed(JOB, "p-x.scope", "done")].concat(),
        _ => returns(asked, &[]),
    });
    manager.start(&unit(), &[]).unwrap();
    let wanted = ["StartTransientUnit", "ResetFailedUnit", "StartTransientUnit"];
    assert_eq!(calls(manager, thread), wanted);
}

#[test]
fn a_unit_that_is_in_use_is_an_error() {
    let (mut manager, thread) = manager(|asked| match &*asked.member {
        "StartTransientUnit" => fails(asked, "UnitExists", "Unit p-x.scope already exists."),
        _ => returns(asked, &[]),
    });
    let error = manager.start(&unit(), &[]).unwrap_err().to_string();
    assert!(error.contains("already exists"), "{error}");
    assert_eq!(calls(manager, thread).len(), 3);
}

#[test]
fn units_are_stopped_and_missing_ones_are_fine() {
    let (mut manager, thread) = manager(|asked| match &*asked.member {
        "StopUnit" => [job(asked), job_removed(JOB, "p-x.scope", "done")].concat(),
        _ => returns(asked, &[]),
    });
    manager.stop(&unit()).unwrap();
    assert_eq!(calls(manager, thread), ["StopUnit", "ResetFailedUnit"]);
    let (mut manager, _thread) =
        self::manager(|asked| fails(asked, "NoSuchUnit", "Unit p-x.scope not loaded."));
    manager.stop(&unit()).unwrap();
}

#[test]
fn versions() {
    let version = |text: &'static str| {
        let (mut manager, _thread) =
            manager(move |asked| returns(asked, &[Value::Variant(Box::new(Value::text(text)))]));
        manager.version(&unit())
    };
    assert_eq!(version("252.39-1~deb12u1"), Ok(252));
    assert_eq!(version("v257"), Ok(257));
    assert!(version("x").is_err());
}

#[test]
fn the_cgroup_of_systemd_itself() {
    let cgroup = |value: Value| {
        let (mut manager, _thread) = manager(move |asked| {
            assert_eq!((&*asked.member, &*asked.text), ("Get", MANAGER));
            returns(asked, &[Value::Variant(Box::new(value.clone()))])
        });
        manager.cgroup()
    };
    let path = "/user.slice/user-1.slice/user@1.service";
    assert_eq!(cgroup(Value::text(path)), Ok(path.into()));
    let error = cgroup(Value::Uint32(1)).unwrap_err().to_string();
    assert!(error.starts_with("systemd: Get ControlGroup user instance: "), "{error}");
}

#[test]
fn processes_are_moved_to_a_unit() {
    let (mut manager, thread) = manager(|asked| {
        assert_eq!(asked.text, "p-x.scope");
        returns(asked, &[])
    });
    manager.attach(&unit(), 7).unwrap();
    assert_eq!(calls(manager, thread), ["AttachProcessesToUnit"]);
}

#[test]
fn a_bus_that_stalls_is_an_error_soon() {
    let stalls = |answer: fn(&Asked) -> Vec<u8>| {
        let (mut manager, _thread) = manager(answer);
        let error = within_bounds(|| manager.start(&unit(), &[])).unwrap_err();
        assert!(matches!(error, Error::Call { cause: dbus::Error::Stalled(200), .. }), "{error}");
        error.to_string()
    };
    // The cases are: no reply; a reply without the end of the job; half a reply; unrelated messages without end.
    let error = stalls(|_| Vec::new());
    let says =
        "systemd: StartTransientUnit p-x.scope: no answer within 0.2 s: D-Bus or systemd is stuck;";
    assert!(error.starts_with(says), "{error}");
    stalls(job);
    stalls(|asked| job(asked)[..40].to_vec());
    stalls(|asked| [job(asked), job_removed("/other", "p-y.scope", "done").repeat(500)].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_the_bus_sends_nothing_panics(
        junk in prop::collection::vec(any::<u8>(), 1..120),
        at in 0usize..60,
        plausible: bool,
    ) {
        let (mut manager, _thread) = manager(move |asked| {
            let mut bytes = job(asked);
            if plausible {
                for (to, from) in bytes.iter_mut().skip(at).zip(&junk) {
                    *to = *from;
                }
                bytes
            } else {
                junk.clone()
            }
        });
        let result = within_bounds(|| manager.start(&unit(), &[]));
        prop_assert!(result.is_err());
    }
}
