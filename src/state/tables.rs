//! The `tables!` macro: from the one list of tables to handles, creation and walks over all of them.

/// What a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Records: the truth.
    Table,
    /// Rows derived from records.
    Index,
}

impl Kind {
    /// The word people see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Index => "index",
        }
    }
}

/// What the list says of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its sentence.
    pub purpose: &'static str,
    /// Most bytes a key of it can have.
    pub max_key_bytes: usize,
}

macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident: $key:ty => $value:ty;)+) => {
        // A longer key would fail when somebody writes it.
        $(const _: () = assert!(
            <$key as KeyPart>::MAX_BYTES <= super::key::MAX_KEY_BYTES,
            concat!("keys of the table ", stringify!($name), " can be too long for LMDB"),
        );)+

        /// Handles on every table.
        #[derive(Debug, Clone, Copy)]
        pub struct Tables {
            $($(#[doc = $doc])+ pub $name: tables!(@handle $kind $key, $value),)+
        }

        impl Tables {
            /// What the list says, in its order.
            pub const ABOUT: &'static [About] = &[$(About {
                name: stringify!($name),
                kind: tables!(@kind $kind),
                purpose: concat!($($doc),+).trim_ascii(),
                max_key_bytes: <$key as KeyPart>::MAX_BYTES,
            },)+];

            /// The bytes of a key of a table, read and written again, and how it is shown; none if no table is called so.
            #[must_use]
            pub fn rewrite_key(table: &str, key: &[u8]) -> Option<Result<(Vec<u8>, String), BadKey>> {
                match table {
                    $(stringify!($name) => {
                        Some(<$key as KeyPart>::from_bytes(key).map(|key| (key.to_bytes(), key.shown())))
                    })+
                    _ => None,
                }
            }

            /// Number of tables.
            pub(super) const COUNT: usize = Self::ABOUT.len();

            /// Typed handles on the tables, given in the order of the list.
            pub(super) fn from_bytes(tables: [ByteTable<'static>; Self::COUNT]) -> Self {
                let [$($name,)+] = tables;
                Self { $($name: Rows::new(stringify!($name), $name),)+ }
            }

            /// Every table, in the order of the list.
            pub(super) fn all(&self) -> impl Iterator<Item = (&'static About, &dyn Untyped)> {
                let tables: [&dyn Untyped; Self::COUNT] = [$(&self.$name),+];
                Self::ABOUT.iter().zip(tables)
            }
        }
    };
    (@handle table $key:ty, $value:ty) => { Table<$key, $value> };
    (@handle index $key:ty, $value:ty) => { Index<$key, $value> };
    (@kind table) => { Kind::Table };
    (@kind index) => { Kind::Index };
}
