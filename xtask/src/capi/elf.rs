//! The table of a library's dynamic symbols, as far as it takes to make some of them weak.
//!
//! The compiler has no stable way to say so. Offsets are those of the 64-bit little-endian format.

/// A section header's length, and where its type, offset, length and link are.
const HEADER_BYTES: usize = 64;
const TYPE: usize = 4;
const OFFSET: usize = 24;
const LENGTH: usize = 32;
const LINK: usize = 40;
/// The type of a section that holds dynamic symbols, each of so many bytes with its binding in the fifth.
const DYNAMIC_SYMBOLS: u64 = 11;
const SYMBOL_BYTES: usize = 24;
const BINDING: usize = 4;
const WEAK: u8 = 2 << 4;

/// A number of `len` bytes.
fn number(image: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = image.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn place(image: &[u8], at: usize, len: usize) -> Option<usize> {
    usize::try_from(number(image, at, len)?).ok()
}

/// Makes symbols weak; `None` if the image is no library of this format, or lacks one of them.
pub(super) fn weaken(image: &mut [u8], names: &[&str]) -> Option<()> {
    if image.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, count) = (place(image, 40, 8)?, place(image, 60, 2)?);
    let end = image.len();
    let header = |index: usize| {
        let at = table.checked_add(index.checked_mul(HEADER_BYTES)?)?;
        (at.checked_add(HEADER_BYTES)? <= end).then_some(at)
    };
    let mut headers = (0..count).filter_map(header);
    let symbols = headers.find(|&at| number(image, at + TYPE, 4) == Some(DYNAMIC_SYMBOLS))?;
    let texts = place(image, header(place(image, symbols + LINK, 4)?)?.checked_add(OFFSET)?, 8)?;
    let (start, len) = (place(image, symbols + OFFSET, 8)?, place(image, symbols + LENGTH, 8)?);
    let mut found = 0;
    for at in (start..start.checked_add(len)?).step_by(SYMBOL_BYTES) {
        let name = texts.checked_add(place(image, at, 4)?)?;
        let text = image.get(name..)?.split(|&byte| byte == 0).next()?;
        if names.iter().any(|wanted| wanted.as_bytes() == text) {
            let binding = image.get_mut(at + BINDING)?;
            *binding = *binding & 0xf | WEAK;
            found += 1;
        }
    }
    (found == names.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused() {
        let mut header = [0; 80];
        assert_eq!(weaken(&mut [], &["a"]), None);
        assert_eq!(weaken(&mut header, &["a"]), None);
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(weaken(&mut header, &["a"]), None);
        header[40..48].fill(0xff);
        header[60] = 3;
        assert_eq!(weaken(&mut header, &["a"]), None);
    }
}
