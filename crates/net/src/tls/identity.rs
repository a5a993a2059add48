//! Whom a certificate names: in its subject, as decision 0018 says.
//!
//! Invariants: a certificate names one role; what is not as [`Identity::subject`] writes it names nobody.

use x509_parser::x509::X509Name;

/// What every engine's certificate is issued to, and clients ask for: whoever has the key is an engine of the system,
/// whatever its machine is called.
pub const ENGINE_NAME: &str = "engine.dolmen";

/// The longest name of a user or group, and the most groups, that a certificate carries.
const NAME_BYTES_MAX: usize = 255;
const GROUPS_MAX: usize = 256;

/// What somebody is in a system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// An engine: asks other engines what they ask each other.
    Engine,
    /// Whoever runs the system: may do everything that a client can ask.
    Admin,
    /// Anybody else: may do what lists allow.
    User,
}

impl Role {
    /// As it stands in a certificate, in the place of an organisational unit. Persistent: never rename.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Admin => "admin",
            Self::User => "user",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        [Self::Engine, Self::Admin, Self::User].into_iter().find(|role| role.name() == name)
    }
}

/// Whom a certificate names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// What he is in the system.
    pub role: Role,
    /// The user, as access control lists name him, without `@`.
    pub name: String,
    /// His groups in the same way, the first one before the others.
    pub groups: Vec<String>,
    /// His number, and that of his first group, where he is counted and shown by number.
    pub uid: u32,
    /// See there.
    pub gid: u32,
}

/// The parts of a subject that say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// Common name: the user.
    pub common_name: String,
    /// Organisational unit: the role.
    pub unit: String,
    /// Organisation: the groups, with commas.
    pub organization: String,
    /// User id ([`USER_ID_OID`]): number of the user, a colon, number of the group.
    pub user_id: String,
}

/// The attribute `userId` (RFC 4519), by its numbers.
pub const USER_ID_OID: [u64; 7] = [0, 9, 2342, 19_200_300, 100, 1, 1];

impl Identity {
    /// What a certificate's subject has to say to name it; `None` if a certificate cannot.
    #[must_use]
    pub fn subject(&self) -> Option<Subject> {
        let subject = Subject {
            common_name: self.name.clone(),
            unit: self.role.name().to_owned(),
            organization: self.groups.join(","),
            user_id: format!("{}:{}", self.uid, self.gid),
        };
        (Self::of_subject(&subject).as_ref() == Some(self)).then_some(subject)
    }

    fn of_subject(subject: &Subject) -> Option<Self> {
        let role = Role::of_name(&subject.unit)?;
        let groups: Vec<String> = match subject.organization.as_str() {
            "" => Vec::new(),
            listed => listed.split(',').map(str::to_owned).collect(),
        };
        let (uid, gid) = subject.user_id.split_once(':')?;
        let is_whole = is_name(&subject.common_name)
            && groups.len() <= GROUPS_MAX
            && groups.iter().all(|group| is_name(group));
        let name = subject.common_name.clone();
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        is_whole.then_some(Self { role, name, groups, uid, gid })
    }

    /// Whom the subject of a certificate names.
    pub(super) fn of_name(name: &X509Name<'_>) -> Option<Self> {
        let mut subject = [const { None::<String> }; 4];
        for attribute in name.iter_attributes() {
            let id = attribute.attr_type().to_id_string();
            let at = ["2.5.4.3", "2.5.4.11", "2.5.4.10", "0.9.2342.19200300.100.1.1"];
            let place = subject.get_mut(at.iter().position(|known| *known == id)?)?;
            // What is said twice may be read in two ways.
            if place.replace(attribute.as_str().ok()?.to_owned()).is_some() {
                return None;
            }
        }
        let [common_name, unit, organization, user_id] = subject;
        let organization = organization.unwrap_or(String::new());
        Self::of_subject(&Subject { common_name: common_name?, unit: unit?, organization, user_id: user_id? })
    }
}

/// Whether lists can name somebody so.
fn is_name(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_graphic() && !b"@:,/\\\"".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anna() -> Identity {
        let groups = vec!["staff".to_owned(), "video".to_owned()];
        Identity { role: Role::User, name: "anna".to_owned(), groups, uid: 7, gid: 8 }
    }

    #[test]
    fn a_subject_names_whom_it_was_written_for_and_nobody_else() {
        let subject = anna().subject().unwrap();
        assert_eq!((subject.unit.as_str(), subject.organization.as_str()), ("user", "staff,video"));
        assert_eq!(Identity::of_subject(&subject), Some(anna()));
        for name in ["", "..", "OWNER@", "a,b", "a b", "a:b", "\u{e4}"] {
            assert_eq!(Identity { name: name.to_owned(), ..anna() }.subject(), None, "{name:?}");
        }
        assert_eq!(Identity { groups: vec![String::new(), "a".to_owned()], ..anna() }.subject(), None);
        for bad in [
            Subject { unit: "root".to_owned(), ..subject.clone() },
            Subject { user_id: "7".to_owned(), ..subject.clone() },
            Subject { user_id: "7:-1".to_owned(), ..subject.clone() },
            Subject { organization: ",".to_owned(), ..subject },
        ] {
            assert_eq!(Identity::of_subject(&bad), None, "{bad:?}");
        }
    }
}
