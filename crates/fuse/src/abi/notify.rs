//! What is said to the kernel unasked.

use super::reply::{Out, head};

/// The minor version of the protocol from which on the kernel can be told that all names are to be looked up anew.
const EPOCH_MINOR: u32 = 44;

const INVAL_INODE: i32 = 2;
const RETRIEVE: i32 = 5;
const INC_EPOCH: i32 = 8;

/// Whether a kernel of this version knows [`names`].
pub(crate) fn has_names(major: u32, minor: u32) -> bool {
    major > 7 || (major == 7 && minor >= EPOCH_MINOR)
}

/// The attributes of a node are to be asked for anew, and its contents if `pages` says so. It waits for no lock but, for these,
/// those of pages that are just being read or written.
pub(crate) fn node(number: u64, pages: bool) -> Vec<u8> {
    // From there to the end; a negative offset leaves contents alone.
    let offset: i64 = if pages { 0 } else { -1 };
    let mut out = Out::default();
    out.u64(number).u64(offset.cast_unsigned()).u64(0);
    notification(INVAL_INODE, out.as_slice())
}

/// Names that the kernel has been told before now, or is told in answer to what it has asked before now, are to be looked up anew.
pub(crate) fn names() -> Vec<u8> {
    notification(INC_EPOCH, &[])
}

/// The kernel is to send none of the bytes that it has of a file, as request `unique`. It refuses that of what is no file.
pub(crate) fn nothing(unique: u64, file: u64) -> Vec<u8> {
    let mut out = Out::default();
    out.u64(unique).u64(file).u64(0).u64(0);
    notification(RETRIEVE, out.as_slice())
}

/// Notifications have the number of no request, and what they are where an answer has an error.
fn notification(code: i32, own: &[u8]) -> Vec<u8> {
    let mut bytes = head(0, -code, own.len()).to_vec();
    bytes.extend_from_slice(own);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_have_the_form_that_the_kernel_expects() {
        let attrs = node(0x0102, false);
        assert_eq!(attrs[..16], [40, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(attrs[16..24], [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(attrs[24..], [[0xff; 8], [0; 8]].concat());
        assert_eq!(node(1, true)[24..], [0; 16]);
        assert_eq!(names(), [16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let asked = nothing(0x0304, 1);
        assert_eq!(asked[..16], [48, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            asked[16..],
            [[4, 3, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0], [0; 8], [0; 8]].concat()
        );
        assert!(has_names(7, 44) && !has_names(7, 43) && has_names(8, 0) && !has_names(6, 99));
    }
}
