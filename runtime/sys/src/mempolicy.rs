//! NUMA memory policy, set_mempolicy(2).

use rustix::io::Errno;

/// Words of a mask of nodes.
pub const WORDS: usize = 16;

/// Sets the caller's policy, which its children and the program it executes have as well: a mode with
/// its flags, and the nodes it is about.
///
/// # Errors
/// Those of set_mempolicy(2): EINVAL for nodes that are not there, or a mode that the kernel does not
/// know.
pub fn set(mode: u32, nodes: &[u64; WORDS]) -> Result<(), Errno> {
    // The kernel counts one bit less than it is told.
    let bits = WORDS * 64 + 1;
    // SAFETY: the mask is readable, as many bits as the kernel looks at.
    unsafe {
        crate::raw::call(
            crate::raw::nr::SET_MEMPOLICY,
            [mode as usize, nodes.as_ptr().addr(), bits],
        )
    }
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_must_be_there() {
        const BIND: u32 = 2;
        let mut nodes = [0; WORDS];
        assert_eq!(set(BIND, &nodes), Err(Errno::INVAL));
        nodes[15] = 1 << 63;
        assert_eq!(set(BIND, &nodes), Err(Errno::INVAL));
        assert_eq!(set(0, &[0; WORDS]), Ok(()));
    }
}
