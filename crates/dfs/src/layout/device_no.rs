//! The number of a device: 8 bytes, major and minor, little-endian, in akey `DLM_RDEV` of a device's entry.

/// Length of the record.
pub const BYTES: usize = 8;

/// Which device an entry of kind `CharDevice` or `BlockDevice` stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct DeviceNo {
    /// The driver.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

impl DeviceNo {
    /// From the 32 bits in which Linux hands device numbers to file systems: 12 of them are the major number.
    #[must_use]
    pub fn from_linux(packed: u32) -> Self {
        Self { major: (packed >> 8) & 0xfff, minor: (packed & 0xff) | ((packed >> 12) & 0xfff00) }
    }

    /// The inverse of `from_linux`; what does not fit is cut off.
    #[must_use]
    pub fn to_linux(self) -> u32 {
        (self.minor & 0xff) | ((self.major & 0xfff) << 8) | ((self.minor & 0xfff00) << 12)
    }

    /// The record.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        (u64::from(self.major) | u64::from(self.minor) << 32).to_le_bytes()
    }

    /// Reads a record; `None` for another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (major, minor) = <&[u8; BYTES]>::try_from(bytes).ok()?.split_at(4);
        let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
        Some(Self { major: number(major)?, minor: number(minor)? })
    }
}

const _: () = assert!(size_of::<DeviceNo>() == BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_number_has_its_golden_bytes() {
        let number = DeviceNo { major: 0x0102, minor: 0x03_0405 };
        assert_eq!(number.to_bytes(), [2, 1, 0, 0, 5, 4, 3, 0]);
        assert_eq!(DeviceNo::from_bytes(&number.to_bytes()), Some(number));
        assert_eq!(DeviceNo::from_bytes(&[0; 7]), None);
        assert_eq!(DeviceNo::from_linux(number.to_linux()), number);
        assert_eq!(DeviceNo { major: 1, minor: 3 }.to_linux(), 0x103);
    }
}
