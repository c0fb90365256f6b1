//! Device programs are loaded once, and a request never gets the program of another request.

mod common;

use std::cell::Cell;
use std::fs;

use cgroup::devices::program::{assemble, load_program};
use cgroup::devices::{Access, DEFAULT_RULES, Rule};
use common::{Scratch, in_namespace, mounts};
use dayfly_container::cache::Cache;
use rustix::fd::AsFd;
use sys::bpf::Instruction;
use sys::bpf_info::is_device_program;

const PINS: &str = "mounts/bpf/device";

/// Returns the program of a container with one unusual device: 10:`minor`.
fn program(minor: u32) -> Vec<Instruction> {
    let mut rules: Vec<Rule> = DEFAULT_RULES.iter().map(|(_, rule)| *rule).collect();
    let last = rules[rules.len() - 1];
    rules.push(Rule { minor: Some(minor), access: Access::READ, ..last });
    assemble(&rules)
}

/// Requests a program; returns whether it had to be loaded.
fn ask(cache: &Cache, minor: u32) -> bool {
    let loaded = Cell::new(false);
    let program = program(minor);
    let fd = cache.device_program(&program, || {
        loaded.set(true);
        load_program(&program)
    });
    assert_eq!(is_device_program(fd.unwrap().as_fd(), &program), Ok(true));
    loaded.get()
}

/// Runs `test` with a new cache, in a separate mount namespace.
fn with_cache(name: &str, test: impl FnOnce(&Scratch, &Cache)) {
    in_namespace(name, || {
        let scratch = Scratch::new().unwrap();
        test(&scratch, &scratch.open());
    });
}

#[test]
fn a_program_is_loaded_once() {
    with_cache("a_program_is_loaded_once", |scratch, cache| {
        assert!(ask(cache, 1));
        assert!(!ask(cache, 1));
        assert!(ask(cache, 2));
        assert!(!ask(&scratch.open(), 2));
        assert_eq!(scratch.entries(PINS).len(), 2);
    });
}

#[test]
fn no_instruction_is_overlooked() {
    with_cache("no_instruction_is_overlooked", |_, _| {
        let program = program(1);
        let loaded = load_program(&program).unwrap();
        let is = |program: &[Instruction]| is_device_program(loaded.as_fd(), program).unwrap();
        assert!(is(&program));
        for place in 0..program.len() {
            let mut other = program.clone();
            other[place].immediate ^= 1;
            assert!(!is(&other));
        }
        assert!(!is(&program[..program.len() - 1]));
        assert!(!is(&[program.as_slice(), &program[..1]].concat()));
    });
}

#[test]
fn errors_of_loading_are_passed_on() {
    with_cache("errors_of_loading_are_passed_on", |scratch, cache| {
        let result = cache.device_program(&program(1), || Err("refused"));
        assert_eq!(result.unwrap_err(), "refused");
        assert!(scratch.entries(PINS).is_empty());
    });
}

#[test]
fn another_program_of_that_name_is_not_used() {
    with_cache("another_program_of_that_name_is_not_used", |scratch, cache| {
        ask(cache, 1);
        let name = scratch.entries(PINS).pop().unwrap();
        fs::remove_file(&name).unwrap();
        let other = load_program(&program(2)).unwrap();
        let path = std::ffi::CString::new(name.to_str().unwrap()).unwrap();
        sys::bpf::pin(&path, other.as_fd()).unwrap();
        assert!(ask(cache, 1));
        assert!(!ask(cache, 1));
    });
}

#[test]
fn the_oldest_make_room() {
    with_cache("the_oldest_make_room", |scratch, cache| {
        for minor in 0..40 {
            assert!(ask(cache, minor));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(scratch.entries(PINS).len(), 32);
        for minor in 8..40 {
            assert!(!ask(cache, minor), "{minor}");
        }
        assert!(ask(cache, 7));
    });
}

#[test]
fn pins_and_template_share_a_mount() {
    with_cache("pins_and_template_share_a_mount", |scratch, cache| {
        let before = mounts();
        ask(cache, 1);
        assert_eq!(mounts().len(), before.len() + 2);
        cache.blank().unwrap();
        assert_eq!(mounts().len(), before.len() + 3);
        assert!(!ask(cache, 1));
        Cache::clear(scratch.path()).unwrap();
        assert_eq!(mounts(), before);
        // Without the cache's directory, the program cannot be cached.
        assert!(ask(cache, 1));
        assert!(ask(cache, 1));
        assert_eq!(mounts(), before);
    });
}

#[test]
fn many_at_once_all_get_theirs() {
    with_cache("many_at_once_all_get_theirs", |scratch, _| {
        let before = mounts().len();
        std::thread::scope(|scope| {
            for thread in 0..50 {
                let cache = scratch.open();
                scope.spawn(move || {
                    for round in 0..10 {
                        ask(&cache, (thread + round) % 7);
                    }
                });
            }
        });
        assert_eq!(mounts().len(), before + 2);
        let cache = scratch.open();
        // A request that found the lock taken has not cached its program. The following requests
        // cache these programs.
        let _: Vec<bool> = (0..7).map(|minor| ask(&cache, minor)).collect();
        assert!((0..7).all(|minor| !ask(&cache, minor)));
        assert_eq!(scratch.entries(PINS).len(), 7);
    });
}
