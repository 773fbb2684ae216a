//! The `tables!` macro: generates handles, creation and walks over all tables from the one list of tables.

use super::key::{BadKey, KeyPart};

/// The kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Records: the truth.
    Table,
    /// Rows derived from records.
    Index,
}

impl Kind {
    /// The kind as a word for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Index => "index",
        }
    }
}

/// A table's entry in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its sentence.
    pub purpose: &'static str,
    /// Maximum length of its keys in bytes.
    pub max_key_bytes: usize,
}

/// Decodes a key of a table and encodes it again. Also returns its text form.
pub(super) fn rewritten<K: KeyPart>(key: &[u8]) -> Result<(Vec<u8>, String), BadKey> {
    K::from_bytes(key).map(|key| (key.to_bytes(), key.shown()))
}

macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident $(as $stored:literal)? $(basis $basis:ident)?: $key:ty => $value:ty
        $({ $($(#[doc = $index_doc:literal])+ index $index:ident $(as $index_stored:literal)? $(basis $index_basis:ident)?: $index_key:ty => $index_value:ty = $derive:expr;)+ })?
        $(;)?)+) => {
        // Checked at compile time. Otherwise a longer key would fail only at the first write.
        $(
            const _: () = assert!(
                <$key as KeyPart>::MAX_BYTES <= super::key::MAX_KEY_BYTES,
                concat!("keys of the table ", stringify!($name), " can be too long for LMDB"),
            );
            $($(const _: () = assert!(
                <$index_key as KeyPart>::MAX_BYTES <= super::key::MAX_KEY_BYTES,
                concat!("keys of the table ", stringify!($index), " can be too long for LMDB"),
            );)+)?
        )+

        /// Handles on every table.
        #[derive(Debug, Clone, Copy)]
        pub struct Tables {
            $(
                $(#[doc = $doc])+
                pub $name: tables!(@handle $kind $key, $value, $name $($($index)+)?),
                $($($(#[doc = $index_doc])+ pub $index: Index<$index_key, $index_value>,)+)?
            )+
        }

        impl Tables {
            /// The entries of the list, in order.
            pub const ABOUT: &'static [About] = &[$(
                About {
                    name: tables!(@name $name $($stored)?),
                    kind: tables!(@kind $kind),
                    purpose: concat!($($doc),+).trim_ascii(),
                    max_key_bytes: <$key as KeyPart>::MAX_BYTES,
                },
                $($(About {
                    name: tables!(@name $index $($index_stored)?),
                    kind: Kind::Index,
                    purpose: concat!($($index_doc),+).trim_ascii(),
                    max_key_bytes: <$index_key as KeyPart>::MAX_BYTES,
                },)+)?
            )+];

            /// Decodes a key of a table and encodes it again. Also returns its text form. None if there is no table of
            /// this name.
            #[must_use]
            pub fn rewrite_key(table: &str, key: &[u8]) -> Option<Result<(Vec<u8>, String), BadKey>> {
                match table {
                    $(
                        tables!(@name $name $($stored)?) => Some(rewritten::<$key>(key)),
                        $($(tables!(@name $index $($index_stored)?) => Some(rewritten::<$index_key>(key)),)+)?
                    )+
                    _ => None,
                }
            }

            /// Number of tables.
            pub(super) const COUNT: usize = Self::ABOUT.len();

            /// Typed handles on the tables, given in the order of the list.
            pub(super) fn from_bytes(tables: [ByteTable<'static>; Self::COUNT]) -> Self {
                let [$($name, $($($index,)+)?)+] = tables;
                $(
                    let $name = Rows::new(tables!(@name $name $($stored)?), $name, tables!(@basis $($basis)?));
                    $($(let $index: Index<$index_key, $index_value> =
                        Rows::new(tables!(@name $index $($index_stored)?), $index, tables!(@basis $($index_basis)?));)+)?
                    let $name = tables!(@new $kind $name $($($index)+)?);
                )+
                Self { $($name, $($($index,)+)?)+ }
            }

            /// Every table, in the order of the list.
            pub(super) fn all(&self) -> impl Iterator<Item = (&'static About, &dyn Untyped)> {
                $(let $name: &tables!(@rows $kind $key, $value) = &self.$name;)+
                let tables: [&dyn Untyped; Self::COUNT] = [$($name, $($(&self.$index,)+)?)+];
                Self::ABOUT.iter().zip(tables)
            }

            /// Visits the tables that have derived indexes.
            pub(super) fn visit_indexed(&self, visitor: &mut impl VisitIndexed) -> Result<(), Error> {
                $($(
                    $(let _ = stringify!($index);)+
                    visitor.visit(&self.$name)?;
                )?)+
                Ok(())
            }
        }

        $($(
            #[doc = concat!("Indexes of the table `", stringify!($name), "`.")]
            pub mod $name {
                use super::*;

                /// Handles on the indexes.
                #[derive(Debug, Clone, Copy)]
                pub struct Indexes {
                    $(pub(super) $index: Index<$index_key, $index_value>,)+
                }

                impl Derive<$key, $value> for Indexes {
                    fn change(
                        &self,
                        txn: &mut Write<'_>,
                        key: &$key,
                        before: Option<&$value>,
                        after: Option<&$value>,
                    ) -> Result<(), Error> {
                        $(indexed::change(&self.$index, txn, key, before, after, $derive)?;)+
                        Ok(())
                    }
                }

                impl Rederive<$key, $value> for Indexes {
                    fn rows(&self, key: &$key, row: &$value, visit: Visit<'_>) -> Result<(), Error> {
                        $(indexed::visit(&self.$index, key, row, $derive, visit)?;)+
                        Ok(())
                    }

                    fn indexes(
                        &self,
                        visit: &mut dyn FnMut(&dyn Untyped) -> Result<(), Error>,
                    ) -> Result<(), Error> {
                        $(visit(&self.$index)?;)+
                        Ok(())
                    }
                }
            }
        )?)+
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $stored:literal) => { $stored };
    (@basis) => { None };
    (@basis $basis:ident) => { Some(Basis::$basis) };
    (@handle table $key:ty, $value:ty, $name:ident) => { Table<$key, $value> };
    (@handle table $key:ty, $value:ty, $name:ident $($index:ident)+) => { Indexed<$key, $value, $name::Indexes> };
    (@handle manual $key:ty, $value:ty, $name:ident) => { Manual<$key, $value> };
    (@rows table $key:ty, $value:ty) => { Table<$key, $value> };
    (@rows manual $key:ty, $value:ty) => { Index<$key, $value> };
    (@new table $name:ident) => { $name };
    (@new table $name:ident $($index:ident)+) => { Indexed::new($name, $name::Indexes { $($index),+ }) };
    (@new manual $name:ident) => { Manual::new($name) };
    (@kind table) => { Kind::Table };
    (@kind manual) => { Kind::Index };
}
