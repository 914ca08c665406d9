package bus

// NewPostgres is newPostgres, for tests.
var NewPostgres = newPostgres
