//! Start-up without libc: entry point, arguments, memory routines, panic.
//!
//! A runtime command runs for a couple of milliseconds, and each container needs three or four commands (create, start,
//! state, delete). An empty program takes 0.28 ms without libc. With a static glibc, which executes CPUID dozens of
//! times (a trap in a VM) and relocates ifuncs, it takes 0.7–0.9 ms. So the binary has no libc: the kernel enters it at
//! the entry point that this file defines. [`entry!`](crate::entry!) defines the needed symbols in a program.

use core::ffi::{CStr, c_char};
#[cfg(feature = "alloc")]
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use core::{ptr, slice};

/// The auxiliary vector as pairs of type and value, set when the program starts.
static AUXILIARY: AtomicPtr<[usize; 2]> = AtomicPtr::new(ptr::null_mut());

/// Returns the auxiliary vector's value for the type `kind` (getauxval(3)). Returns 0 if the vector has no such type,
/// and always in programs with a libc.
pub fn auxiliary(kind: usize) -> usize {
    let mut entry: *const [usize; 2] = AUXILIARY.load(Ordering::Relaxed);
    while !entry.is_null() {
        // SAFETY: from_stack's contract; the last entry's type is 0, AT_NULL.
        match unsafe { entry.read() } {
            [0, _] => break,
            [found, value] if found == kind => return value,
            // SAFETY: as above.
            _ => entry = unsafe { entry.add(1) },
        }
    }
    0
}

/// Returns the page size in bytes. The page size of aarch64 kernels is 4, 16 or 64 KiB; without an auxiliary vector, 64
/// KiB is assumed.
pub fn page_size() -> usize {
    const AT_PAGESZ: usize = 6;
    match auxiliary(AT_PAGESZ) {
        _ if cfg!(target_arch = "x86_64") => 4096,
        0 => 65536,
        size => size,
    }
}

/// The strings of the process's arguments, which are adjacent, and their length in bytes.
static TITLE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static TITLE_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Overwrites the process's arguments, which everybody who sees the process can read in /proc/PID/cmdline, with this
/// text. The arguments of a command can name files of the host.
///
/// # Safety
/// The process has its own copy of the memory, and does not read argv afterwards.
pub unsafe fn set_title(title: &[u8]) {
    let (start, length) = (TITLE.load(Ordering::Relaxed), TITLE_LENGTH.load(Ordering::Relaxed));
    let bytes = title.iter().copied().chain(core::iter::repeat(0));
    for (offset, byte) in bytes.take(length.saturating_sub(1)).enumerate() {
        // SAFETY: the kernel has put `length` writable bytes here, and nobody else uses them, by the caller's promise.
        unsafe { start.add(offset).write_volatile(byte) };
    }
}

/// The kernel's data on the initial stack (execve(2), "Process memory"): arguments and environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Args {
    argv: &'static [*const c_char],
    envp: &'static [*const c_char],
}

impl Args {
    /// Reads the initial stack.
    ///
    /// # Safety
    /// `sp` is the stack pointer with which the kernel started the process.
    pub unsafe fn from_stack(sp: *const usize) -> Self {
        // SAFETY: the ABI puts argc, argv[argc], NULL, envp…, NULL, auxv…, AT_NULL at the initial stack pointer, and
        // this memory stays unchanged until the process exits.
        unsafe {
            let argc = *sp;
            let argv = sp.add(1).cast::<*const c_char>();
            let envp = argv.add(argc + 1);
            let mut envc = 0;
            while !(*envp.add(envc)).is_null() {
                envc += 1;
            }
            AUXILIARY.store(envp.add(envc + 1).cast_mut().cast(), Ordering::Relaxed);
            if argc > 0 {
                TITLE.store((*argv).cast_mut().cast(), Ordering::Relaxed);
                let last = CStr::from_ptr(*argv.add(argc - 1)).to_bytes_with_nul();
                let length = last.as_ptr_range().end.addr() - (*argv).addr();
                TITLE_LENGTH.store(length, Ordering::Relaxed);
            }
            Self {
                argv: slice::from_raw_parts(argv, argc),
                envp: slice::from_raw_parts(envp, envc),
            }
        }
    }

    /// Returns an empty argument list and environment, for tests and for programs that embed the runtime.
    pub const fn empty() -> Self {
        Self { argv: &[], envp: &[] }
    }

    /// Removes all arguments, and all environment variables except `name`. Meant for a program that embeds the runtime
    /// and hides its own environment from the runtime.
    #[must_use]
    pub fn with_only(self, name: &str) -> Self {
        let is_named = |entry: &CStr| {
            let rest = entry.to_bytes().strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.first() == Some(&b'='))
        };
        let at = self.environment().position(is_named);
        Self { argv: &[], envp: at.and_then(|at| self.envp.get(at..=at)).unwrap_or_default() }
    }

    /// Returns the arrays in the kernel's layout, for execve(2).
    #[cfg(feature = "alloc")]
    pub(crate) fn pointers(&self) -> (*const *const c_char, *const *const c_char) {
        (self.argv.as_ptr(), self.envp.as_ptr())
    }

    /// Returns the address ranges of the argument and environment strings, which lie one after another.
    #[cfg(feature = "alloc")]
    pub(crate) fn ranges(&self) -> (Range<u64>, Range<u64>) {
        let range = |strings: &[*const c_char]| {
            let (first, last) = (strings.first()?, strings.last()?);
            // SAFETY: from_stack's contract.
            let last = unsafe { CStr::from_ptr(*last) }.to_bytes_with_nul().as_ptr_range().end;
            Some(first.addr() as u64..last.addr() as u64)
        };
        let stack = self.argv.as_ptr().addr() as u64;
        let arguments = range(self.argv).unwrap_or(stack..stack);
        let environment = range(self.envp).unwrap_or(arguments.end..arguments.end);
        (arguments, environment)
    }

    /// Iterates over the arguments, beginning with the program's name.
    pub fn iter(&self) -> impl Iterator<Item = &'static CStr> + use<> {
        // SAFETY: from_stack's contract: every entry is a NUL-terminated string that outlives us.
        self.argv.iter().map(|&p| unsafe { CStr::from_ptr(p) })
    }

    /// Iterates over the environment, as strings of the form `NAME=value`.
    pub fn environment(&self) -> impl Iterator<Item = &'static CStr> + use<> {
        // SAFETY: from_stack's contract: every entry is a NUL-terminated string that outlives us.
        self.envp.iter().map(|&p| unsafe { CStr::from_ptr(p) })
    }

    /// Returns the value of an environment variable, if it is set and is UTF-8.
    pub fn env(&self, name: &str) -> Option<&'static str> {
        let first = *name.as_bytes().first()?;
        // Names are compared byte by byte, without computing lengths, because most differ in the first byte.
        let begins = |entry: *const c_char| {
            // SAFETY: from_stack's contract; the first byte exists, even if the string is empty.
            unsafe { entry.cast::<u8>().read() == first }
        };
        let is_named = |entry: *const c_char| {
            let wanted = name.bytes().chain([b'=']);
            // SAFETY: from_stack's contract; reads stop at the first difference, at the latest at the final NUL.
            wanted
                .enumerate()
                .all(|(at, byte)| unsafe { entry.add(at).cast::<u8>().read() } == byte)
        };
        let mut entries = self.envp.iter().copied().filter(|&entry| begins(entry));
        let entry = entries.find(|&entry| is_named(entry))?;
        // SAFETY: from_stack's contract.
        let value = unsafe { CStr::from_ptr(entry.add(name.len() + 1)) };
        value.to_str().ok()
    }
}

// SAFETY: the arrays and strings are the kernel's, and stay for the life of the process. Only `set_title` writes to the
// strings, those of the arguments, and its caller promises that the process reads them no more.
unsafe impl Send for Args {}
// SAFETY: as above.
unsafe impl Sync for Args {}

/// Ends the process by exit_group(2), or by a signal if a seccomp filter forbids exit_group(2).
pub fn exit(status: i32) -> ! {
    // SAFETY: exit_group takes no pointers and does not return.
    unsafe {
        crate::raw::syscall(crate::raw::nr::EXIT_GROUP, crate::raw::args![status, 0, 0, 0, 0, 0])
    };
    loop {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an invalid instruction raises a signal, which kills even the init of a PID namespace. Nothing runs
        // after it.
        unsafe {
            core::arch::asm!("ud2", options(nomem, nostack))
        };
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            core::arch::asm!("udf #0", options(nomem, nostack))
        };
    }
}

/// Prints a panic's message to stderr and exits with status 2. A panic is a bug; the stack is not unwound.
pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    let _ = writeln!(crate::stdio::Stderr, "dayfly: bug, please report: {info}");
    exit(2)
}
