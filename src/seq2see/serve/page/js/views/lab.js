export function mount(root) { return { update() {} }; }
