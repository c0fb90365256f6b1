//! Folds stacks from the output of `perf script`, and assigns subjects to them.

use std::collections::BTreeMap;

/// Stacks from the outermost function inwards, with their number of samples.
pub(super) type Stacks = Vec<(Vec<String>, u64)>;

/// The subjects of samples, each with parts of the names of kernel functions. The first one is that of functions in which
/// a CPU waits for a lock that another CPU holds, and of those that wait for mount_lock inline, path_init first of all; a stack belongs to the first of the others that matches.
const SUBJECTS: &str = include_str!("subjects.txt");

/// Returns the subjects with the functions in which CPUs wait for locks.
pub(super) fn classes() -> impl Iterator<Item = (&'static str, &'static str)> {
    SUBJECTS.lines().filter_map(|line| line.split_once(": "))
}

/// Returns the names of the subjects that stacks belong to.
pub(super) fn subjects() -> impl Iterator<Item = &'static str> {
    classes().skip(1).map(|(name, _)| name).chain([OTHER, USER])
}

/// The subject of kernel stacks that match none of the others.
const OTHER: &str = "the kernel, other";
/// The subject of stacks without kernel functions.
const USER: &str = "user space";

/// Folds the output of `perf script -F comm,pid,ip,sym`, omitting processes with these names.
pub(super) fn fold(script: &str, without: &[&str]) -> Stacks {
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(head) = lines.next() else { continue };
        let name = command(head);
        if without.contains(&name) {
            continue;
        }
        let mut stack: Vec<String> = lines.filter_map(function).collect();
        // Adjacent functions without names are merged.
        stack.dedup_by(|one, next| one.starts_with('(') && one == next);
        // runc gives its processes different names for different tasks.
        stack.push(name.split(":[").next().unwrap_or(name).to_owned());
        stack.reverse();
        *stacks.entry(stack).or_default() += 1;
    }
    stacks.into_iter().collect()
}

/// Returns the process's name from `NAME PID`; the name may contain spaces.
fn command(head: &str) -> &str {
    let head = head.trim();
    head.rsplit_once(char::is_whitespace).map_or(head, |(name, _)| name.trim())
}

/// Returns the function from `ADDRESS SYMBOL`. All functions of a program without symbols get the same name.
fn function(line: &str) -> Option<String> {
    let (address, symbol) = line.trim().split_once(' ')?;
    let is_kernel = address.len() == 16 && address.starts_with("ffff");
    match symbol.trim() {
        "[unknown]" if is_kernel => Some("(kernel)".to_owned()),
        "[unknown]" => Some("(program)".to_owned()),
        symbol => Some(symbol.trim_end_matches("_noprof").to_owned()),
    }
}

/// Returns whether a stack contains functions of the kernel: those of a system call, a fault, an interrupt, or the
/// start of a new process.
fn has_kernel(stack: &[String]) -> bool {
    const ENTRIES: &str =
        "entry_SYSCALL asm_exc_ asm_sysvec_ ret_from_fork el0 do_syscall (kernel)";
    stack.iter().any(|function| ENTRIES.split(' ').any(|entry| function.starts_with(entry)))
}

/// Returns the name of the first entry of `SUBJECTS` that matches a stack, such as `mounts`; `USER` for a stack
/// without kernel functions, `OTHER` if no entry matches.
pub(super) fn subject(stack: &[String]) -> &'static str {
    if !has_kernel(stack) {
        return USER;
    }
    let found = classes().skip(1).find(|(_, parts)| has(stack, parts));
    found.map_or(OTHER, |(name, _)| name)
}

/// Returns whether the CPU was waiting for a lock when the stack was sampled.
pub(super) fn waits(stack: &[String]) -> bool {
    classes().next().is_some_and(|(_, parts)| has(stack, parts))
}

/// Returns whether the name of a function contains one of the given parts.
fn has(stack: &[String], parts: &str) -> bool {
    parts.split(' ').any(|part| stack.iter().any(|function| function.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
dayfly  1234 
\tffffffff82163c7a native_queued_spin_lock_slowpath
\tffffffff816e0e31 copy_mnt_ns
\tffffffff81000130 entry_SYSCALL_64_after_hwframe
\t          401000 [unknown]

runc:[2:INIT]  1235 
\tffffffff81692e18 __alloc_frozen_pages_noprof
\tffffffff82000c82 asm_exc_page_fault
\t          55d0c0 runtime.memmove

dayfly-bench  99 
\t          55d0c0 main

dayfly  1234 
\tffffffff82163c7a native_queued_spin_lock_slowpath
\tffffffff816e0e31 copy_mnt_ns
\tffffffff81000130 entry_SYSCALL_64_after_hwframe
\t          401000 [unknown]
\t          402000 [unknown]

sh  7 
\t          55d0c0 main
";

    #[test]
    fn stacks_are_folded() {
        let stacks = fold(SCRIPT, &["dayfly-bench"]);
        let told: Vec<(String, u64)> =
            stacks.iter().map(|(stack, samples)| (stack.join(";"), *samples)).collect();
        assert_eq!(
            told,
            [
                (
                    "dayfly;(program);entry_SYSCALL_64_after_hwframe;copy_mnt_ns;native_queued_spin_lock_slowpath"
                        .to_owned(),
                    2
                ),
                ("runc;runtime.memmove;asm_exc_page_fault;__alloc_frozen_pages".to_owned(), 1),
                ("sh;main".to_owned(), 1),
            ]
        );
        let subjects: Vec<&str> = stacks.iter().map(|(stack, _)| subject(stack)).collect();
        assert_eq!(subjects, ["mounts", "memory", USER]);
        let waiting: Vec<bool> = stacks.iter().map(|(stack, _)| waits(stack)).collect();
        assert_eq!(waiting, [true, false, false]);
        // The wait for mount_lock's sequence is inline.
        let lookup = ["runc", "entry_SYSCALL_64", "path_openat", "path_init"].map(str::to_owned);
        assert!(waits(&lookup) && subject(&lookup) != USER);
    }
}
