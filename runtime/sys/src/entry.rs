//! [`entry!`](crate::entry!), which makes a program without libc and std.

/// Defines what a program with the main function `$main: fn(sys::Args) -> i32` would otherwise get from libc and std:
/// entry point, allocator, panic handler and memory routines. Use it once, in a `#![no_std] #![no_main]` binary linked
/// with `-nostartfiles -nostdlib -static -no-pie`.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            ".pushsection .text._start, \"ax\"",
            ".globl _start", "_start:", "xor ebp, ebp", "mov rdi, rsp", "and rsp, -16",
            "call {entry}", "ud2", ".popsection", entry = sym __entry,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            ".pushsection .text._start, \"ax\"",
            ".globl _start", "_start:", "mov x29, xzr", "mov x30, xzr", "mov x0, sp",
            "bl {entry}", "brk 1", ".popsection", entry = sym __entry,
        );

        unsafe extern "C" fn __entry(sp: *const usize) -> ! {
            // SAFETY: _start passes the stack pointer with which the kernel started this process.
            let args = unsafe { $crate::start::Args::from_stack(sp) };
            $crate::start::exit($main(args))
        }

        #[global_allocator]
        // SAFETY: the program creates no thread, and processes that share its memory run the crate init, which does not
        // use the heap.
        static ALLOCATOR: $crate::alloc::Allocator = unsafe { $crate::alloc::Allocator::new() };

        #[panic_handler]
        fn __panic(info: &core::panic::PanicInfo<'_>) -> ! {
            $crate::start::panicked(info)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn memcpy(d: *mut u8, s: *const u8, n: usize) -> *mut u8 {
            // SAFETY: memcpy's own contract.
            unsafe { $crate::mem::copy_forward(d, s, n) };
            d
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn memmove(d: *mut u8, s: *const u8, n: usize) -> *mut u8 {
            // SAFETY: memmove's own contract.
            unsafe { $crate::mem::copy(d, s, n) };
            d
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn memset(d: *mut u8, c: i32, n: usize) -> *mut u8 {
            // SAFETY: memset's own contract.
            unsafe { $crate::mem::set(d, c as u8, n) };
            d
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
            // SAFETY: memcmp's own contract.
            unsafe { $crate::mem::compare(a, b, n) }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
            // SAFETY: bcmp's own contract.
            unsafe { $crate::mem::compare(a, b, n) }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn strlen(s: *const u8) -> usize {
            // SAFETY: strlen's own contract.
            unsafe { $crate::mem::length(s) }
        }

        // The compiler's runtime calls this to detect CPU features.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(no_mangle)]
        extern "C" fn getauxval(kind: usize) -> usize {
            $crate::start::auxiliary(kind)
        }

        // The prebuilt core and alloc refer to the unwinder; with panic=abort nothing calls it.
        #[unsafe(no_mangle)]
        extern "C" fn rust_eh_personality() {}
        #[unsafe(no_mangle)]
        extern "C" fn _Unwind_Resume() -> ! {
            $crate::start::exit(2)
        }
    };
}
