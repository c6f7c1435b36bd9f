package proc

// zombieGroupIsEPERM: kill(2) on macOS refuses a group of which only zombies
// are left.
const zombieGroupIsEPERM = true
