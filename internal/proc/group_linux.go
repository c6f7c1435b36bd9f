package proc

// zombieGroupIsEPERM: Linux lets a zombie be signalled.
const zombieGroupIsEPERM = false
